//! Recomputes the accounting of a mounted volume, and runs all other parts of the file system check.

use firnfs::FsError;
use firnfs::lfs::Lfs;
use firnfs_manage::LogVolume;
use firnfs_volume::Volume;

/// Makes everything durable and checks the volume. Returns the errors, one line each.
///
/// # Errors
/// The volume could not be made durable.
pub fn audit(volume: &Volume<Lfs>) -> Result<Vec<String>, FsError> {
    let report = volume.check()?;
    let found = report.findings.iter().map(ToString::to_string);
    let aside = volume.run(|vfs, _| {
        let list = vfs.store().quarantined();
        Ok(list.map(|(thing, why)| format!("{thing} was quarantined: {why}")).collect::<Vec<_>>())
    })?;
    Ok(found.chain(aside).collect())
}
