//! Each live sector of metadata of a small Fast File System is damaged: zeros, random bytes, flipped bits, and exchanged with another
//! sector of its kind. Nothing panics; the check finds the damage, or nothing outside the damaged structure has changed; a repair
//! ends, and the check after it finds nothing; then all files outside the structure are there and have their content.

mod map;

use firnfs::check::ffs::{FfsProblem, FfsReport};
use firnfs::ffs::{Ffs, Options};
use firnfs::vfs::AtimeMode;
use firnfs_device::{Clock, Device, MemDevice, SparseImage};
use firnfs_format::InodeNo;
use firnfs_manage::{check_ffs, open_ffs, repair_ffs};
use firnfs_sim::{VirtualClock, seeded};
use firnfs_torture::specimen::fast_specimen;
use firnfs_torture::survey::{Answers, Aspect, Bounds, Survey, survey};
use firnfs_volume::Volume;
use map::{Form, SECTOR_BYTES, Sector, sectors};
use rand::RngExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Flipped bits, each alone, for a sector of inodes; other sectors have fewer fields.
const FLIPS_OF_INODES: u32 = 24;
const FLIPS: u32 = 3;
const BOUNDS: Bounds = Bounds { inodes_max: 2000, entries_max: 2000, lookup_every: 1, blocks_max: 400 };

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::at(3_000_000_000))
}

/// Mounts a copy of an image, read-only.
fn mount(image: &SparseImage) -> Result<Volume<Ffs>, String> {
    let device: Arc<dyn Device> = Arc::new(MemDevice::from_image(image.clone()));
    let options = Options { read_only: true, ..Options::default() };
    open_ffs(device, options, AtimeMode::Noatime, clock()).map_err(|error| format!("mount: {error}"))
}

/// What was done to an image.
struct Damage {
    what: String,
    image: SparseImage,
    /// Inodes that it may have changed.
    owners: BTreeSet<InodeNo>,
    form: Form,
    /// All of the sector was replaced, so the check has to find it.
    is_gross: bool,
}

struct Clinic {
    image: SparseImage,
    sectors: Vec<Sector>,
    whole: Survey,
}

impl Clinic {
    fn new() -> Self {
        let image = fast_specimen().unwrap();
        let report = check_ffs(&MemDevice::from_image(image.clone())).unwrap();
        assert!(report.findings.is_empty(), "{report:?}");
        let whole = survey(&mount(&image).unwrap(), BOUNDS);
        assert_eq!(whole.errors().count(), 0);
        let sectors = sectors(&image);
        Self { image, sectors, whole }
    }

    fn read(&self, sector: &Sector) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        self.image.read(sector.at_bytes, &mut bytes);
        bytes
    }

    fn damage(&self, sector: &Sector, what: &str, bytes: &[u8], is_gross: bool) -> Option<Damage> {
        let mut image = self.image.clone();
        image.write(sector.at_bytes, bytes);
        let is_changed = bytes != self.read(sector);
        let (owners, form) = (sector.owners.iter().copied().collect(), sector.form);
        let what = format!("byte {}, {:?} of {:?}: {what}", sector.at_bytes, sector.form, sector.owners);
        is_changed.then_some(Damage { what, image, owners, form, is_gross })
    }

    /// All damages of one sector.
    fn damages(&self, number: usize) -> Vec<Damage> {
        let sector = &self.sectors[number];
        let old = self.read(sector);
        let mut rng = seeded(number as u64, "damage");
        let mut noise = [0; SECTOR_BYTES];
        rng.fill(&mut noise[..]);
        let mut all = vec![
            self.damage(sector, "zeros", &[0; SECTOR_BYTES], true),
            self.damage(sector, "noise", &noise, true),
        ];
        let flips = if sector.form == Form::Inodes { FLIPS_OF_INODES } else { FLIPS };
        for _ in 0..flips {
            let bit = rng.random_range(0..SECTOR_BYTES * 8);
            let mut bytes = old;
            bytes[bit / 8] ^= 1 << (bit % 8);
            all.push(self.damage(sector, &format!("bit {bit} flipped"), &bytes, false));
        }
        let others: Vec<&Sector> = self.sectors.iter().filter(|other| other.form == sector.form).collect();
        let other = others[rng.random_range(0..others.len())];
        let exchanged =
            self.damage(sector, &format!("exchanged with byte {}", other.at_bytes), &self.read(other), false);
        all.push(exchanged.map(|mut damage| {
            damage.image.write(other.at_bytes, &old);
            damage.owners.extend(&other.owners);
            damage
        }));
        all.into_iter().flatten().collect()
    }

    /// Damages one sector in all ways. Returns how many damages the check found.
    fn treat(&self, number: usize, failed: &mut Vec<String>) -> (usize, usize) {
        let damages = self.damages(number);
        let mut found = 0;
        for damage in &damages {
            match self.treat_one(damage) {
                Ok(is_found) => found += usize::from(is_found),
                Err(why) => failed.push(format!("{}: {why}", damage.what)),
            }
        }
        (found, damages.len())
    }

    fn treat_one(&self, damage: &Damage) -> Result<bool, String> {
        let memory = Arc::new(MemDevice::from_image(damage.image.clone()));
        let before = check_ffs(&*memory).map_err(|error| format!("check: {error}"))?;
        let is_found = !before.findings.is_empty();
        if !is_found {
            // The value of an attribute is content: nothing contradicts it.
            if damage.is_gross && damage.form != Form::Attributes {
                return Err("the check finds nothing".to_owned());
            }
            let now = survey(&mount(&damage.image)?, BOUNDS);
            return self.judge(&now, &damage.owners, true).map(|()| false);
        }
        // Nothing panics on it as it is, either.
        if let Ok(volume) = mount(&damage.image) {
            survey(&volume, BOUNDS);
        }
        let device: Arc<dyn Device> = memory.clone();
        let repaired =
            repair_ffs(&device, &clock(), &mut |_| true).map_err(|error| format!("repair: {error}"))?;
        sound("after the repair", &repaired.after)?;
        let volume = open_ffs(device, Options::default(), AtimeMode::Noatime, clock())
            .map_err(|error| format!("mount after the repair: {error}"))?;
        let mut owners = damage.owners.clone();
        owners.extend(robbed(&before));
        self.judge(&survey(&volume, BOUNDS), &owners, false)?;
        volume.close().map_err(|error| format!("unmount: {error}"))?;
        sound("the second check", &check_ffs(&*memory).map_err(|error| error.to_string())?)?;
        Ok(true)
    }

    /// Compares everything outside the damaged structure: all of it, or after a repair, which changes names and attributes of what was
    /// lost, the content, and names between inodes outside.
    fn judge(&self, now: &Survey, owners: &BTreeSet<InodeNo>, all: bool) -> Result<(), String> {
        for (ino, right) in self.whole.inodes.iter().filter(|(ino, _)| !owners.contains(ino)) {
            let Some(answers) = now.inodes.get(ino) else {
                // The repair frees what has neither a name nor content, as 4.4BSD's does.
                if !all && is_empty(right) && self.is_named_by(*ino, owners) {
                    continue;
                }
                return Err(format!("inode {ino} is gone"));
            };
            for (aspect, answer) in right {
                let counts = match aspect {
                    Aspect::Attributes | Aspect::Listing => all,
                    Aspect::Lookup(_) => {
                        !answer.as_ref().is_ok_and(|child| owners.contains(&number(child))) || all
                    }
                    _ => true,
                };
                if counts && answers.get(aspect) != Some(answer) {
                    return Err(format!("{aspect:?} of inode {ino} is {:?}", answers.get(aspect).map(short)));
                }
            }
        }
        Ok(())
    }

    fn is_named_by(&self, ino: InodeNo, owners: &BTreeSet<InodeNo>) -> bool {
        let answers = owners.iter().filter_map(|owner| self.whole.inodes.get(owner)).flatten();
        let mut children = answers.filter_map(|(aspect, answer)| match (aspect, answer) {
            (Aspect::Lookup(_), Ok(child)) => Some(number(child)),
            _ => None,
        });
        children.any(|child| child == ino)
    }
}

/// Neither content nor entries nor attributes.
fn is_empty(answers: &Answers) -> bool {
    let is_content = |aspect: &Aspect| {
        matches!(aspect, Aspect::Block(_) | Aspect::Target | Aspect::Lookup(_) | Aspect::Xattr(_))
    };
    !answers.keys().any(is_content)
}

/// Inodes with a block that an inode before them claims as well: nothing tells whose it is, and they lose it.
fn robbed(report: &FfsReport) -> impl Iterator<Item = InodeNo> {
    let shared =
        report.findings.iter().filter(|finding| matches!(finding.problem, FfsProblem::Shared { .. }));
    shared.filter_map(|finding| finding.ino)
}

fn short(answer: &Result<Vec<u8>, firnfs::FsError>) -> String {
    match answer {
        Ok(bytes) => format!("{:?}", &bytes[..bytes.len().min(16)]),
        Err(error) => error.to_string(),
    }
}

fn number(child: &[u8]) -> InodeNo {
    InodeNo(u64::from_le_bytes(child.try_into().unwrap()))
}

fn sound(when: &str, report: &FfsReport) -> Result<(), String> {
    let left: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    if left.is_empty() { Ok(()) } else { Err(format!("{when}: {left:?}")) }
}

#[test]
fn a_damaged_sector_of_metadata_harms_only_what_it_describes() {
    let clinic = Clinic::new();
    let mut failed = Vec::new();
    let mut by_form = BTreeMap::new();
    for (number, sector) in clinic.sectors.iter().enumerate() {
        let (found, all) = clinic.treat(number, &mut failed);
        let sum: &mut (usize, usize, usize) = by_form.entry(sector.form).or_default();
        (sum.0, sum.1, sum.2) = (sum.0 + 1, sum.1 + found, sum.2 + all);
    }
    println!("sectors, damages found, damages: {by_form:#?}");
    assert_eq!(by_form.len(), Form::COUNT, "sectors of every form");
    assert!(failed.is_empty(), "{}: {:#?}", failed.len(), &failed[..failed.len().min(40)]);
}
