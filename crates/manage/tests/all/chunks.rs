//! Content of which a file has a chunk goes to the log before any commit is due.

use crate::common::{create, mount, new_device, pattern};
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, Options};
use firnfs::store::Scope;
use firnfs_device::Device;
use firnfs_format::InodeNo;
use firnfs_torture::audit::audit;
use firnfs_volume::Volume;
use std::sync::Arc;

const BLOCK_BYTES: usize = 4096;
const CHUNK: usize = 32;

fn options() -> Options {
    Options { chunk_blocks: CHUNK, coalesce_age_ms: None, ..Options::default() }
}

/// A volume with one file. Nothing runs in the background but what a test asks for.
struct Scene {
    device: Arc<dyn Device>,
    volume: Volume<Lfs>,
    ino: InodeNo,
}

impl Scene {
    fn new() -> Self {
        let device = new_device(64 << 20, 0);
        let (volume, _) = mount(&device, options());
        volume.wait_for_work(0);
        let ino = create(&volume, InodeNo::ROOT, "file", Kind::Regular);
        Self { device, volume, ino }
    }

    fn write(&self, block: usize, seed: u64) {
        let at_bytes = (block * BLOCK_BYTES) as u64;
        self.volume.write_all(self.ino, at_bytes, &pattern(seed, BLOCK_BYTES), false).unwrap();
    }

    fn background(&self) {
        self.volume.background().unwrap();
    }

    /// Blocks of content that went to the log.
    fn written(&self) -> usize {
        let bytes = self.volume.run_quietly(|vfs, _| Ok(vfs.store().counters().log_file_bytes)).unwrap();
        bytes as usize / BLOCK_BYTES
    }

    /// Blocks of content that are dirty, of as many as the file has.
    fn dirty(&self) -> usize {
        let blocks = self.volume.run_quietly(|vfs, _| vfs.store_mut().inode_blocks(self.ino)).unwrap();
        blocks.iter().filter(|block| block.key.level == 0 && block.ptr.is_pending()).count()
    }

    /// The volume after a crash, and the file that it has then.
    fn crashed(self) -> (Volume<Lfs>, Option<InodeNo>) {
        drop(self.volume);
        let (volume, _) = mount(&self.device, options());
        assert_eq!(audit(&volume).unwrap(), Vec::<String>::new());
        let found = volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, b"file", false));
        (volume, found.ok().map(|attr| attr.ino))
    }
}

#[test]
fn neighbours_go_when_they_are_a_chunk() {
    let scene = Scene::new();
    for block in 0..CHUNK - 1 {
        scene.write(block, 1);
        scene.background();
    }
    assert_eq!(scene.written(), 0, "less than a chunk");
    for block in CHUNK - 1..20 * CHUNK {
        scene.write(block, 1);
        scene.background();
        assert!(scene.dirty() < CHUNK, "block {block}: {} are dirty", scene.dirty());
    }
    assert_eq!(scene.written(), 20 * CHUNK);
    let (_, found) = scene.crashed();
    assert_eq!(found, None, "its name was not committed");
}

#[test]
fn what_went_before_a_commit_is_part_of_it() {
    let scene = Scene::new();
    for block in 0..5 * CHUNK + 7 {
        scene.write(block, block as u64);
        scene.background();
    }
    assert_eq!(scene.written(), 5 * CHUNK);
    // One that is dirty still, one that has gone.
    scene.write(5 * CHUNK, 1000);
    scene.write(3, 1001);
    scene.volume.sync(Scope::File(scene.ino)).unwrap();
    assert_eq!(scene.written(), 5 * CHUNK + 7 + 1);
    let (volume, found) = scene.crashed();
    let mut bytes = vec![0; (5 * CHUNK + 7) * BLOCK_BYTES];
    volume.read(found.unwrap(), 0, &mut bytes).unwrap();
    for (block, bytes) in bytes.chunks(BLOCK_BYTES).enumerate() {
        let seed = match block {
            3 => 1001,
            block if block == 5 * CHUNK => 1000,
            block => block as u64,
        };
        assert!(bytes == pattern(seed, BLOCK_BYTES), "block {block}");
    }
}

#[test]
fn what_is_written_again_and_again_waits() {
    let scene = Scene::new();
    for round in 0..50 {
        for block in 0..2 * CHUNK {
            scene.write(block, round);
            scene.background();
        }
    }
    assert_eq!(scene.written(), 2 * CHUNK, "only what was there first");
}

/// A chunk of scattered blocks follows the one before in the file, so later ones find more blocks beside each other.
#[test]
fn scattered_content_goes_in_runs_of_twice_the_memory() {
    const BLOCKS: usize = 64 * 100;
    let scene = Scene::new();
    (0..BLOCKS).for_each(|block| scene.write(block, 1));
    scene.volume.sync(Scope::All).unwrap();
    scene.volume.run_quietly(|vfs, now| vfs.store_mut().checkpoint_now(now)).unwrap();
    // All blocks, once each, scattered: both numbers are prime to each other.
    for n in 0..BLOCKS {
        scene.write(n * 1361 % BLOCKS, 2);
        scene.background();
        assert!(scene.dirty() < 2 * CHUNK, "write {n}: {} are dirty", scene.dirty());
    }
    scene.volume.sync(Scope::All).unwrap();
    let blocks = scene.volume.run_quietly(|vfs, _| vfs.store_mut().inode_blocks(scene.ino)).unwrap();
    let content = blocks.iter().filter(|block| block.key.level == 0);
    let mut order: Vec<_> = content.map(|block| (block.ptr.addr, block.key.index)).collect();
    order.sort_unstable();
    let runs = 1 + order.windows(2).filter(|pair| pair[1].1 < pair[0].1).count();
    // Runs of the memory alone, 2 * CHUNK blocks, would be 100.
    assert!(runs < 70, "{runs} runs");
}
