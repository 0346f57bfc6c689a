//! Files of a header and frames, each with a checksum: corrects the checksums of mutated ones, so that a reader gets beyond the first.
//!
//! Callers: the targets `workload` and `snapshot`.

/// Where a structure has what is needed to correct it. All numbers are bytes from its beginning.
#[derive(Clone, Copy)]
pub struct Form {
    /// Its fixed part.
    pub head_bytes: usize,
    /// The checksum, which is zero when it is calculated.
    pub crc_at: usize,
    /// The length of what follows the fixed part.
    pub len_at: usize,
    /// The first byte that the checksum covers.
    pub covered_from: usize,
}

impl Form {
    /// Bytes of a structure with what follows it; `None` if there are fewer.
    fn whole_bytes(self, bytes: &[u8]) -> Option<usize> {
        let len = u32::from_le_bytes(*bytes.get(self.len_at..)?.first_chunk()?);
        let end = self.head_bytes.checked_add(usize::try_from(len).ok()?)?;
        (end <= bytes.len()).then_some(end)
    }
}

/// The file with the checksums that its header and its frames should have, as far as they are whole.
pub fn corrected(bytes: &[u8], header: Form, frame: Form) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let (mut at, mut form) = (0, header);
    while let Some(len) = form.whole_bytes(&bytes[at..]) {
        let part = &mut bytes[at..at + len];
        part[form.crc_at..form.crc_at + 4].fill(0);
        let crc = firnfs_format::crc32c(&part[form.covered_from..]).to_le_bytes();
        part[form.crc_at..form.crc_at + 4].copy_from_slice(&crc);
        at += len;
        form = frame;
    }
    bytes
}
