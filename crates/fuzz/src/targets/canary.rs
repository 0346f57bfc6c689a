//! Decoders with one flaw each, for a format of links: a working fuzzer must find each flaw within seconds.
//!
//! ```text
//! list := count u16, link{2}*        (link: position of the next one, in links)
//! ```

/// A list of three links.
pub fn seeds() -> Vec<Vec<u8>> {
    vec![vec![3, 0, 1, 0, 2, 0, 3, 0]]
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
}

/// Trusts the count: assumes that there are that many links.
pub fn panics(bytes: &[u8]) {
    let links = word(bytes, 0).unwrap_or(0);
    let last = bytes.get(..2).map(|_| &bytes[2 + links.saturating_sub(1) * 2..]);
    assert!(last.is_none_or(|last| last.len() <= bytes.len()));
}

/// Trusts the count: allocates a page for each link.
pub fn allocates(bytes: &[u8]) {
    let links = word(bytes, 0).unwrap_or(0);
    let room: Vec<[u8; 16 << 10]> = Vec::with_capacity(links);
    assert!(room.capacity() >= links);
}

/// Follows links until one leads out of the list.
pub fn loops(bytes: &[u8]) {
    let mut at = 0;
    while let Some(next) = word(bytes, 2 + at * 2) {
        at = std::hint::black_box(next);
    }
}

/// Follows links, each in a nested call.
pub fn recurses(bytes: &[u8]) {
    fn follow(bytes: &[u8], at: usize) -> usize {
        let here = std::hint::black_box([at; 64]);
        word(bytes, 2 + at * 2).map_or(0, |next| follow(bytes, next)) + here[63]
    }
    std::hint::black_box(follow(bytes, 0));
}
