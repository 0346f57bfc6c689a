//! How much of the raw bandwidth a `FileDevice` delivers: sequential 1 MiB writes through it against a plain loop of
//! pwrite(2), both O_DIRECT on the same file, in interleaved rounds. `sequential FILE [MIB [ROUNDS]]`; FILE is made and
//! removed.

use firnfs_device::{AlignedBuf, Device, FileDevice, FileOptions, Request};
use std::collections::VecDeque;
use std::error::Error;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const UNIT_BYTES: usize = 1 << 20;
/// Writes under way at a time: as many as a segment writer with double buffering has.
const IN_FLIGHT: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: sequential FILE [MIB [ROUNDS]]")?;
    let mib: u64 = args.next().map_or(Ok(512), |a| a.parse())?;
    let rounds: usize = args.next().map_or(Ok(7), |a| a.parse())?;
    let path = Path::new(&path);
    let device = FileDevice::create(path, mib << 20, &FileOptions::default())?;
    if let Some(why) = device.buffered_because() {
        println!("note: buffered, {why}");
    }
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let plain = std::fs::OpenOptions::new().write(true).custom_flags(direct).open(path)?;
    let data = Arc::new(AlignedBuf::copy_of(&vec![0x5a; UNIT_BYTES]));

    // The first pass allocates the blocks of the file; it is not measured.
    through_device(&device, &data, mib)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(mib as f64 / through_device(&device, &data, mib)?);
        theirs.push(mib as f64 / through_loop(&plain, &data, mib)?);
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!("FileDevice {ours:.0} MiB/s, pwrite loop {theirs:.0} MiB/s, ratio {:.3}", ours / theirs);
    std::fs::remove_file(path)?;
    Ok(())
}

/// Seconds for `mib` writes and a flush.
fn through_device(device: &FileDevice, data: &Arc<AlignedBuf>, mib: u64) -> Result<f64, Box<dyn Error>> {
    let started = Instant::now();
    let mut under_way = VecDeque::new();
    for i in 0..mib {
        if under_way.len() == IN_FLIGHT {
            device.wait(under_way.pop_front().expect("some are under way"))?;
        }
        let request = Request::Write { at_bytes: i * UNIT_BYTES as u64, data: data.clone().into() };
        under_way.push_back(device.submit(request));
    }
    for tag in under_way {
        device.wait(tag)?;
    }
    device.flush()?;
    Ok(started.elapsed().as_secs_f64())
}

fn through_loop(file: &std::fs::File, data: &AlignedBuf, mib: u64) -> Result<f64, Box<dyn Error>> {
    let started = Instant::now();
    for i in 0..mib {
        file.write_all_at(data, i * UNIT_BYTES as u64)?;
    }
    file.sync_data()?;
    Ok(started.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
