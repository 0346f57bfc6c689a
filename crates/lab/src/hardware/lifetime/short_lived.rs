//! Profiles of short-lived files from "another server" (section 3.2), made up. Inputs: there are 449 of them, as in the paper, and their number of
//! files and bytes makes the workload as large as the published one, 1.3 million operations and 87.3 GB in 215 days on 1 GB.

use crate::age::workload::{Profile, ShortFile};
use crate::random::normal;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const PROFILES: usize = 449;
/// Files of the largest profile; few are large.
const FILES_MAX: f64 = 340.0;
/// Median size in bytes, and the standard deviation of its natural logarithm.
const FILE_BYTES: (f64, f64) = (42_000.0, 1.6);
const FILE_MAX_BYTES: f64 = 8e6;
/// Lifetimes, from and to, in seconds: the logarithm is uniform.
const LIFE_S: (f64, f64) = (1.0, 1800.0);
const HOUR_NS: f64 = 3.6e12;
/// The hours of a burst.
const BURST_H: f64 = 2.0;

/// The profiles of a seed.
pub(super) fn profiles(seed: u64) -> Vec<Profile> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x00ac_adee);
    (0..PROFILES).map(|_| profile(&mut rng)).collect()
}

fn profile(rng: &mut Pcg64Mcg) -> Profile {
    let count = 2 + (rng.random::<f64>().powi(3) * FILES_MAX) as usize;
    let start_h = 7.0 + rng.random::<f64>() * (16.0 - BURST_H);
    let mut files: Vec<ShortFile> = (0..count)
        .map(|_| {
            let made_h = start_h + rng.random::<f64>().powi(2) * BURST_H;
            let life_s = LIFE_S.0 * (LIFE_S.1 / LIFE_S.0).powf(rng.random::<f64>());
            let size_bytes = FILE_BYTES.0 * (FILE_BYTES.1 * normal(rng)).exp();
            let made_ns = (made_h * HOUR_NS) as u64;
            let deleted_ns = made_ns + (life_s * 1e9) as u64;
            ShortFile { made_ns, deleted_ns, size_bytes: size_bytes.clamp(100.0, FILE_MAX_BYTES) as u64 }
        })
        .collect();
    files.sort_by_key(|file| file.deleted_ns);
    Profile { files }
}
