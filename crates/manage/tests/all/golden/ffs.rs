//! The golden image of the Fast File System: `golden/ffs-v1.sectors` and `golden/ffs-v1.txt`, with the same content as the log's, unmounted
//! cleanly. What the same operations leave after a crash depends on what was still delayed; no reader has to know that.

use super::*;
use firnfs::ffs::{Ffs, MkfsOptions, Options};
use firnfs_manage::{check_ffs, format_ffs, open_ffs};

fn mount(device: &Arc<dyn Device>, clock: &Arc<VirtualClock>) -> Volume<Ffs> {
    open_ffs(device.clone(), Options::default(), AtimeMode::Noatime, clock.clone()).unwrap()
}

fn build() -> SparseImage {
    let memory = Arc::new(MemDevice::new(SIZE_BYTES));
    let device: Arc<dyn Device> = memory.clone();
    let options = MkfsOptions {
        block_bytes: 4096,
        frag_bytes: 1024,
        group_bytes: Some(4 << 20),
        label: "golden".to_owned(),
        uuid: *b"golden ffs v1..\n",
        hash_key: [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210],
        now: TimeNs(1_000_000_000_000_000_000),
        ..MkfsOptions::with_size(SIZE_BYTES)
    };
    format_ffs(&*device, &options).unwrap();
    let clock = Arc::new(VirtualClock::at(1_000_000_001_000_000_000));
    let volume = mount(&device, &clock);
    fill(&Session { volume: &volume, clock: &clock });
    volume.close().unwrap();
    drop(volume);
    clock.advance_ms(1000);
    let volume = mount(&device, &clock);
    change(&Session { volume: &volume, clock: &clock });
    volume.close().unwrap();
    drop(volume);
    memory.image()
}

fn opened(image: &SparseImage) -> (Volume<Ffs>, Arc<VirtualClock>) {
    let device: Arc<dyn Device> = Arc::new(MemDevice::from_image(image.clone()));
    let clock = Arc::new(VirtualClock::at(1_000_000_002_000_000_000));
    (mount(&device, &clock), clock)
}

fn listing(image: &SparseImage) -> String {
    let mut out = String::new();
    list(&opened(image).0, ROOT, "/", &mut BTreeSet::new(), &mut out);
    out
}

#[test]
fn the_same_operations_write_the_golden_image_of_the_fast_file_system_byte_for_byte() {
    let built = build();
    if regenerates() {
        std::fs::write(file("ffs-v1.sectors"), pack(&built)).unwrap();
        std::fs::write(file("ffs-v1.txt"), listing(&built)).unwrap();
        return;
    }
    assert_same(&image("ffs-v1.sectors"), &built);
}

#[test]
fn the_golden_image_of_the_fast_file_system_is_sound_opens_and_reads_back() {
    if regenerates() {
        return;
    }
    let golden = image("ffs-v1.sectors");
    let report = check_ffs(&MemDevice::from_image(golden.clone())).unwrap();
    assert_eq!(report.findings, []);
    assert_lists(&listing(&golden), &std::fs::read_to_string(file("ffs-v1.txt")).unwrap());
    let (volume, clock) = opened(&golden);
    assert_content(&Session { volume: &volume, clock: &clock });
}
