//! Bytes from channels: requests of the kernel, and lines of the control socket.

use firnfs::mem::{MemOptions, MemStore};
use firnfs::vfs::{AtimeMode, Vfs};
use firnfs_format::TimeNs;
use firnfs_fuse::control::{Answer, OpError, Registry};
use firnfs_fuse::wire::{Operation, Reply, Request};
use firnfs_fuse::{Adapter, Handler, Settings};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::sync::Arc;

/// Content that the volume may hold, in bytes.
const CAPACITY_BYTES: u64 = 8 << 20;
/// Length of the kernel's header, in bytes.
const HEADER_BYTES: usize = 40;
/// Most requests of one input.
const REQUESTS_MAX: usize = 64;

/// A conversation: messages, each after its length in two bytes. The first bytes of a message, which repeat the length, are
/// corrected: the kernel never gets them wrong, and otherwise every message would be rejected at once.
pub fn requests(bytes: &[u8]) {
    let store = MemStore::new(MemOptions::with_capacity(CAPACITY_BYTES), TimeNs(1));
    let clock = Arc::new(VirtualClock::at(1_000_000_000));
    let volume = Arc::new(Volume::new(Vfs::new(store, AtimeMode::Relatime), None, clock));
    let adapter = Adapter::new(volume, Settings::default());
    let mut reply = Reply::new(1 << 20);
    let mut rest = bytes;
    for _ in 0..REQUESTS_MAX {
        let Some((len, after)) = rest.split_first_chunk::<2>() else { return };
        let (message, after) = after.split_at(usize::from(u16::from_le_bytes(*len)).min(after.len()));
        rest = after;
        for ext in [false, true] {
            let _as_it_is = Request::decode(message, ext);
        }
        let mut message = message.to_vec();
        let len = message.len() as u32;
        if let Some(stated) = message.first_chunk_mut::<4>() {
            *stated = len.to_le_bytes();
        }
        if let Some(request) = Request::decode(&message, adapter.setxattr_ext()) {
            if let Operation::BatchForget { items } = &request.operation {
                assert!(items.iter().count() <= message.len());
            }
            reply.clear();
            let _verdict = adapter.handle(&request, &mut reply);
            assert!(reply.payload().len() <= 1 << 20);
        }
    }
}

fn message(opcode: u32, nodeid: u64, body: &[u8]) -> Vec<u8> {
    let len = (HEADER_BYTES + body.len()) as u32;
    let mut bytes = (len as u16).to_le_bytes().to_vec();
    bytes.extend(len.to_le_bytes());
    bytes.extend(opcode.to_le_bytes());
    bytes.extend(7u64.to_le_bytes());
    bytes.extend(nodeid.to_le_bytes());
    bytes.extend([0; 16]);
    bytes.extend(body);
    bytes
}

/// A handshake and the typical requests of a mount; each operation alone; all operations with empty bodies.
pub fn request_seeds() -> Vec<Vec<u8>> {
    let words = |words: &[u32], tail: &[u8]| -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).chain(tail.iter().copied()).collect()
    };
    let init = message(26, 0, &words(&[7, 40, 131_072, 0x73ff_ffff, 0xff], &[0; 44]));
    let day = [
        message(1, 1, b"file\0"),
        message(35, 1, &words(&[0o102, 0o644, 0o22, 0], b"file\0")),
        message(9, 1, &words(&[0o755, 0o22], b"directory\0")),
        message(6, 1, b"link\0target\0"),
        message(16, 16, &words(&[0, 0, 100, 0, 5, 0, 0, 0, 0, 0], b"bytes")),
        message(15, 16, &words(&[0, 0, 0, 0, 4096, 0, 0, 0, 0, 0], b"")),
        message(4, 16, &words(&[8, 0, 0, 0, 0, 0, 50, 0], &[0; 64])),
        message(21, 16, &words(&[3, 0], b"user.a\0abc")),
        message(22, 16, &words(&[100, 0], b"user.a\0")),
        message(12, 1, &words(&[17, 0], b"file\0moved\0")),
        message(45, 1, &words(&[1, 0, 2, 0], b"moved\0link\0")),
        message(44, 1, &words(&[0, 0, 0, 0, 4096, 0, 0, 0, 0, 0], b"")),
        message(46, 16, &words(&[0, 0, 0, 0, 0, 0], &[0; 8])),
        message(43, 16, &words(&[0, 0, 0, 0, 0, 0, 9000, 0, 1, 0], &[0; 4])),
        message(10, 1, b"moved\0"),
        message(42, 0, &words(&[1, 0, 16, 0, 1, 0], &[0; 8])),
        message(20, 1, &[0; 16]),
    ];
    let all_empty = (1..53).flat_map(|opcode| message(opcode, 1, &[0; 128])).collect();
    let mut seeds = vec![init.clone(), [init.clone(), day.concat()].concat(), day.concat(), all_empty];
    seeds.extend(day);
    seeds
}

/// A line gets an answer, and the answer is a line of JSON.
pub fn control(bytes: &[u8]) {
    let mut registry = Registry::default();
    registry.register("echo", "answers what it was asked", |request| Ok(request.clone()));
    registry.register("wait", "as await_release reads its argument", |request| {
        request
            .get("timeout_ms")
            .and_then(serde_json::Value::as_u64)
            .map(serde_json::Value::from)
            .ok_or_else(|| OpError::new(firnfs_fuse::control::ErrorKind::BadRequest, "no timeout"))
    });
    let answer: Answer = registry.answer(bytes);
    let line = serde_json::to_string(&answer).expect("an answer is JSON");
    assert!(!line.contains('\n'));
}

/// Requests as the client sends them, and JSON of other shapes.
pub fn control_seeds() -> Vec<Vec<u8>> {
    let lines = [
        r#"{"op":"help"}"#,
        r#"{"op":"echo","text":"one two","number":-1.5e300,"list":[1,[2,[3,[]]]],"null":null}"#,
        r#"{"op":"wait","timeout_ms":60000}"#,
        r#"{"op":"nonsense"}"#,
        r#"[{"op":"echo"}]"#,
        r#""\ud83d\ude00\u0000""#,
    ];
    lines.iter().map(|line| format!("{line}\n").into_bytes()).collect()
}
