//! TPC-B on files: a transaction adds an amount to an account, its teller and its branch, and appends it to the history. Every
//! tenth transaction is made durable, as a group commit would. After the run the files are read again: the three sums of balances and
//! the sum of the history must be the same.

use super::{Measured, Place, forget};
use crate::error::LabError;
use rand::{RngExt, SeedableRng};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const RECORD_BYTES: usize = 100;
const HISTORY_BYTES: usize = 50;
const BRANCHES: u64 = 10;
const TELLERS: u64 = 100;
const GROUP: u64 = 10;

/// A file of records whose first eight bytes are a balance.
struct Balances {
    path: PathBuf,
    file: File,
    records: u64,
}

impl Balances {
    fn make(path: PathBuf, records: u64) -> Result<Self, LabError> {
        let file = File::options().create(true).read(true).write(true).truncate(true).open(&path);
        let file = file.map_err(LabError::io("create", &path))?;
        let zeros = vec![0; RECORD_BYTES * 1000];
        let bytes = records * RECORD_BYTES as u64;
        for at in (0..bytes).step_by(zeros.len()) {
            let len = zeros.len().min((bytes - at) as usize);
            file.write_all_at(&zeros[..len], at).map_err(LabError::io("write", &path))?;
        }
        file.sync_all().map_err(LabError::io("sync", &path))?;
        Ok(Self { path, file, records })
    }

    fn add(&self, record: u64, amount: i64) -> Result<(), LabError> {
        let at = record * RECORD_BYTES as u64;
        let mut bytes = [0; RECORD_BYTES];
        self.file.read_exact_at(&mut bytes, at).map_err(LabError::io("read", &self.path))?;
        let balance = balance(&bytes) + amount;
        bytes[..8].copy_from_slice(&balance.to_le_bytes());
        self.file.write_all_at(&bytes, at).map_err(LabError::io("write", &self.path))
    }

    fn sync(&self) -> Result<(), LabError> {
        self.file.sync_data().map_err(LabError::io("sync", &self.path))
    }

    /// The sum of all balances, read again.
    fn sum(&self) -> Result<i64, LabError> {
        forget(&self.path)?;
        let bytes = std::fs::read(&self.path).map_err(LabError::io("read", &self.path))?;
        if bytes.len() as u64 != self.records * RECORD_BYTES as u64 {
            return Err(LabError::WrongData { path: self.path.clone(), at_bytes: bytes.len() as u64 });
        }
        Ok(bytes.chunks_exact(RECORD_BYTES).map(balance).sum())
    }
}

fn balance(record: &[u8]) -> i64 {
    record.first_chunk::<8>().map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

/// Runs the transactions and compares the sums.
pub(super) fn run(place: &Place<'_>) -> Result<Vec<Measured>, LabError> {
    let accounts = Balances::make(place.path("accounts"), place.amount(1_000_000, 10_000))?;
    let tellers = Balances::make(place.path("tellers"), TELLERS)?;
    let branches = Balances::make(place.path("branches"), BRANCHES)?;
    let path = place.path("history");
    let history = File::create(&path).map_err(LabError::io("create", &path))?;
    let count = place.amount(5_000, 100);
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(1);
    let measured = place.time("transactions", || {
        for number in 0..count {
            let (account, teller) = (rng.random_range(0..accounts.records), rng.random_range(0..TELLERS));
            let amount: i64 = rng.random_range(-99_999..=99_999);
            accounts.add(account, amount)?;
            tellers.add(teller, amount)?;
            branches.add(teller % BRANCHES, amount)?;
            let mut line = [b' '; HISTORY_BYTES];
            line[..8].copy_from_slice(&amount.to_le_bytes());
            history
                .write_all_at(&line, number * HISTORY_BYTES as u64)
                .map_err(LabError::io("write", &path))?;
            if (number + 1) % GROUP == 0 || number + 1 == count {
                [&accounts, &tellers, &branches].into_iter().try_for_each(Balances::sync)?;
                history.sync_data().map_err(LabError::io("sync", &path))?;
                place.stop.check()?;
            }
        }
        Ok(count)
    })?;
    compare([accounts.sum()?, tellers.sum()?, branches.sum()?], &path, count)?;
    Ok(vec![measured])
}

/// An error unless all sums are that of the history.
fn compare(sums: [i64; 3], path: &Path, count: u64) -> Result<(), LabError> {
    forget(path)?;
    let bytes = std::fs::read(path).map_err(LabError::io("read", path))?;
    let sum: i64 = bytes.chunks_exact(HISTORY_BYTES).map(balance).sum();
    if bytes.len() as u64 != count * HISTORY_BYTES as u64 || sums != [sum; 3] {
        let [accounts, tellers, branches] = sums;
        return Err(LabError::Setup(format!(
            "{}: the sums differ after {count} transactions: accounts {accounts}, tellers {tellers}, branches {branches}, \
             history {sum} in {} bytes",
            path.display(),
            bytes.len()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_update_is_found_by_the_sums() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        let mut line = [b' '; HISTORY_BYTES];
        line[..8].copy_from_slice(&5i64.to_le_bytes());
        std::fs::write(&path, line).unwrap();
        assert!(compare([5, 5, 5], &path, 1).is_ok());
        let error = compare([5, 0, 5], &path, 1).unwrap_err().to_string();
        assert!(error.contains("the sums differ after 1 transactions: accounts 5, tellers 0"), "{error}");
        assert!(compare([5, 5, 5], &path, 2).is_err());
    }

    #[test]
    fn balances_add_up_over_records() {
        let directory = tempfile::tempdir().unwrap();
        let balances = Balances::make(directory.path().join("b"), 1500).unwrap();
        balances.add(0, 7).unwrap();
        balances.add(1499, -3).unwrap();
        balances.add(1499, -3).unwrap();
        assert_eq!(balances.sum().unwrap(), 1);
    }
}
