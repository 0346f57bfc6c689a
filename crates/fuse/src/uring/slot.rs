//! `Slot`: the buffers of one request at a time, and how a request and its answer lie in them.
//!
//! The kernel puts the header of a request, the struct of its operation and the ring's own fields into one buffer, and whatever
//! follows them into the other. The answer goes the same way back: its header into the first, everything else into the second.

use crate::adapter::{Attempt, Handler, MAX_WRITE_BYTES, Tried, Verdict};
use crate::wire::abi::ring::{ARGS, FIELDS, HEAD, HEADER_BYTES};
use crate::wire::abi::{OutHeader, RingFields};
use crate::wire::{Reply, Request};
use firnfs_device::AlignedBuf;
use firnfs_volume::Missing;
use rustix::io::Errno;
use std::panic::{AssertUnwindSafe, catch_unwind};
use zerocopy::{FromBytes, IntoBytes};

/// What became of a request.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Answered {
    /// The answer is in the slot.
    Yes,
    /// It would have to wait for this; nothing has happened.
    Reads(Vec<Missing>),
    /// It would have to wait; nothing has happened.
    No,
    /// Its handler panicked; the answer is EIO.
    Panicked,
}

/// See the module's head. The buffers are the same from its making to its end: the kernel knows their addresses.
pub(super) struct Slot {
    /// In words, so that the kernel's structs are aligned: [`HEADER_BYTES`].
    header: Vec<u64>,
    payload: AlignedBuf,
}

/// For answers that cannot be made in place: as long as an answer may be. The memory is used only as far as they need it.
pub(super) fn reply_beside() -> Reply {
    Reply::new(MAX_WRITE_BYTES as usize)
}

impl Slot {
    /// For requests and answers with as many bytes beside their headers as this memory has. It is used only as far as they need it.
    pub fn new(payload: AlignedBuf) -> Self {
        Self { header: vec![0; HEADER_BYTES / 8], payload }
    }

    /// Both buffers.
    pub fn buffers(&mut self) -> (&mut [u64], &mut [u8]) {
        (&mut self.header, &mut self.payload)
    }

    /// The ring's own fields.
    pub fn fields(&self) -> RingFields {
        RingFields::read_from_bytes(&self.header.as_bytes()[FIELDS]).unwrap_or_default()
    }

    /// Has the request answered; the answer is in the slot then. If that would have to wait and this is only an attempt, nothing has
    /// happened. `beside` is for answers to requests that have a payload.
    pub fn answer(
        &mut self,
        handler: &dyn Handler,
        beside: &mut Reply,
        attempt: Option<&Attempt>,
    ) -> Answered {
        let len = (self.fields().payload_sz as usize).min(self.payload.len());
        // An answer may be large; if nothing of the request is in its way, it is made in its place.
        let in_place = len == 0;
        let mut reply = if in_place {
            Reply::over(std::mem::take(&mut self.payload))
        } else {
            Reply::over(AlignedBuf::default())
        };
        let out = if in_place { &mut reply } else { &mut *beside };
        out.clear();
        let handled = catch_unwind(AssertUnwindSafe(|| self.handle(handler, len, out, attempt)));
        let answer_len = if in_place {
            let (payload, answer_len) = reply.into_parts();
            self.payload = payload;
            answer_len
        } else {
            let answer = beside.payload();
            let answer_len = answer.len().min(self.payload.len());
            self.payload[..answer_len].copy_from_slice(&answer[..answer_len]);
            answer_len
        };
        match handled {
            Ok((_, Tried::Waits)) => return Answered::No,
            Ok((_, Tried::Reads(missing))) => return Answered::Reads(missing),
            Ok((unique, Tried::Done(verdict))) => self.close(unique, verdict, answer_len),
            Err(_panic) => {
                let unique = self.header.as_bytes()[8..16].try_into().map_or(0, u64::from_ne_bytes);
                self.close(unique, Verdict::Error(Errno::IO), 0);
                return Answered::Panicked;
            }
        }
        Answered::Yes
    }

    fn handle(
        &self,
        handler: &dyn Handler,
        len: usize,
        reply: &mut Reply,
        attempt: Option<&Attempt>,
    ) -> (u64, Tried) {
        let header = self.header.as_bytes();
        let payload = &self.payload[..len.min(self.payload.len())];
        let Some(request) =
            Request::decode_parts(&header[HEAD], &header[ARGS], payload, handler.setxattr_ext())
        else {
            return (0, Tried::Done(Verdict::Error(Errno::IO)));
        };
        let tried = match attempt {
            None => Tried::Done(handler.handle(&request, reply)),
            Some(attempt) => handler.try_handle(&request, reply, attempt),
        };
        // The kernel takes the answer from where the slot has its payload.
        reply.gather();
        (request.header.unique, tried)
    }

    /// Puts the header of the answer in front of its payload, of which there are so many bytes.
    fn close(&mut self, unique: u64, verdict: Verdict, len: usize) {
        let (error, len) = match verdict {
            Verdict::Answer | Verdict::Last => (0, len),
            Verdict::Error(errno) => (-errno.raw_os_error(), 0),
            Verdict::Silent => (0, 0),
        };
        let head = OutHeader { len: (size_of::<OutHeader>() + len) as u32, error, unique };
        let fields = RingFields { payload_sz: len as u32, ..self.fields() };
        let header = self.header.as_mut_bytes();
        header[..size_of::<OutHeader>()].copy_from_slice(head.as_bytes());
        header[FIELDS].copy_from_slice(fields.as_bytes());
    }
}
