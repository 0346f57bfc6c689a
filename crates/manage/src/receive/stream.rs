//! Reads a stream as frames.

use super::ReceiveError;
use firnfs_format::stream::{FRAME_HEADER_BYTES, Frame, FrameHeader, STREAM_HEADER_BYTES, StreamHeader};
use std::io::Read;

/// Reads a stream. It keeps one frame in memory.
pub struct StreamReader<'r> {
    input: &'r mut dyn Read,
    header: StreamHeader,
    /// The value that checksums start from.
    stream: u32,
    /// Number of the next frame.
    number: u32,
    at_bytes: u64,
    payload: Vec<u8>,
}

impl<'r> StreamReader<'r> {
    /// Reads the header.
    ///
    /// # Errors
    /// `Cut`, `Damaged`, `Io`.
    pub fn new(input: &'r mut dyn Read) -> Result<Self, ReceiveError> {
        let mut bytes = [0; STREAM_HEADER_BYTES];
        fill(input, &mut bytes, 0)?;
        let header =
            StreamHeader::decode(&bytes).map_err(|why| ReceiveError::Damaged { at_bytes: 0, why })?;
        let stream = header.checksum();
        Ok(Self {
            input,
            header,
            stream,
            number: 0,
            at_bytes: STREAM_HEADER_BYTES as u64,
            payload: Vec::new(),
        })
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &StreamHeader {
        &self.header
    }

    /// Bytes read so far, all of them correct.
    #[must_use]
    pub fn at_bytes(&self) -> u64 {
        self.at_bytes
    }

    /// The next frame.
    ///
    /// # Errors
    /// `Cut`, `Damaged`, `Io`.
    pub fn next_frame(&mut self) -> Result<Frame<'_>, ReceiveError> {
        let at_bytes = self.at_bytes;
        let damaged = |why| ReceiveError::Damaged { at_bytes, why };
        let mut header = [0; FRAME_HEADER_BYTES];
        fill(self.input, &mut header, at_bytes)?;
        let header = FrameHeader::decode(&header).map_err(damaged)?;
        self.payload.resize(header.payload_bytes(), 0);
        fill(self.input, &mut self.payload, at_bytes)?;
        let frame = Frame::decode(&header, self.stream, self.number, &self.payload).map_err(damaged)?;
        self.number += 1;
        self.at_bytes += (FRAME_HEADER_BYTES + header.payload_bytes()) as u64;
        Ok(frame)
    }
}

/// Reads all of `bytes`, which belong to the frame at `at_bytes`.
fn fill(input: &mut dyn Read, bytes: &mut [u8], at_bytes: u64) -> Result<(), ReceiveError> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => ReceiveError::Cut { at_bytes },
        _ => ReceiveError::Io(error),
    })
}
