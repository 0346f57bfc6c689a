//! Damage for repairs: flips bits in up to three live structures. They are of all kinds but those without which there is no
//! volume (the superblock and the checkpoints have copies, and scenarios of their own).

use super::Firn;
use crate::anatomy::{Anatomy, Owner};
use firnfs::lfs::Options;
use firnfs_device::{MemDevice, SparseImage};
use firnfs_sim::seeded;
use rand::RngExt;
use std::sync::Arc;

/// Most structures that are damaged.
const PARTS_MAX: usize = 3;

/// The kind of a structure, so that each kind is drawn equally often.
fn kind_of(owner: Owner) -> Option<usize> {
    match owner {
        Owner::Superblock | Owner::Checkpoint | Owner::Summary(_) => None,
        Owner::Usage => Some(0),
        Owner::Map(..) => Some(1),
        Owner::Record(_) => Some(2),
        Owner::Block(key) => Some(3 + usize::from(key.level > 0)),
    }
}

/// See [`super::Subject::damage`].
pub(super) fn damage(firn: &Firn, image: &mut SparseImage, seed: u64) -> Result<String, String> {
    let device = Arc::new(MemDevice::from_image(image.clone()));
    let open = firn.open(device, Options { read_only: true, ..firn.options })?;
    let anatomy = Anatomy::of(image, &open.volume).map_err(|e| e.to_string())?;
    let mut kinds: Vec<Vec<_>> = vec![Vec::new(); 5];
    for part in &anatomy.parts {
        if let Some(kind) = kind_of(part.owner) {
            kinds[kind].push(part);
        }
    }
    kinds.retain(|parts| !parts.is_empty());
    let mut rng = seeded(seed, "damage");
    let mut places = Vec::new();
    for _ in 0..rng.random_range(1..=PARTS_MAX) {
        let parts = &kinds[rng.random_range(0..kinds.len())];
        let part = parts[rng.random_range(0..parts.len())];
        let at = rng.random_range(part.range.clone());
        let mut byte = [0];
        image.read(at, &mut byte);
        image.write(at, &[byte[0] ^ 1 << rng.random_range(0..8)]);
        places.push(format!("{:?} at byte {at}", part.owner));
    }
    Ok(format!("damaged {}", places.join(", ")))
}
