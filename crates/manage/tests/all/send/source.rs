//! A volume that changes at random, and keeps states of what it was.

use super::*;

/// Does something that may be refused.
fn try_it(volume: &Volume<Lfs>, op: &mut dyn FnMut(&mut Vfs<Lfs>) -> Outcome<()>) {
    match volume.run(|vfs, _| op(vfs)) {
        Ok(())
        | Err(
            FsError::Exists
            | FsError::NotEmpty
            | FsError::Invalid(_)
            | FsError::IsDirectory
            | FsError::NotDirectory
            | FsError::NotPermitted(_)
            | FsError::NoAttribute
            | FsError::NotFound,
        ) => {}
        Err(error) => panic!("{error}"),
    }
}

/// A name: its directory, itself, and what it leads to.
type Name = (InodeNo, Vec<u8>, InodeNo, Kind);

/// Changes a volume at random, and makes points of it.
pub struct Source {
    pub volume: Volume<Lfs>,
    rng: Pcg64,
    time_ns: i64,
    pub points: Vec<(Epoch, Tree)>,
}

impl Source {
    pub fn new(seed: u64) -> Self {
        // With room to grow.
        let device: Arc<dyn Device> = Arc::new(MemDevice::new(SIZE_BYTES + GROWTH_BYTES));
        format(&*device, &options(1)).unwrap();
        let volume = mount(&device);
        Self {
            volume,
            rng: Pcg64::seed_from_u64(seed),
            time_ns: 1_600_000_000_000_000_000,
            points: Vec::new(),
        }
    }

    pub fn bytes(&mut self, max: usize) -> Vec<u8> {
        let len = self.rng.random_range(0..=max);
        let mut bytes = vec![0; len];
        self.rng.fill_bytes(&mut bytes);
        bytes
    }

    pub fn name(&mut self) -> Vec<u8> {
        format!("n{}", self.rng.random_range(0..12)).into_bytes()
    }

    /// All directories, and all names.
    pub fn places(&self) -> (Vec<InodeNo>, Vec<Name>) {
        let (mut dirs, mut names, mut at) = (vec![InodeNo::ROOT], Vec::new(), 0);
        while at < dirs.len() {
            for (name, ino, kind) in children(&self.volume, dirs[at]) {
                if kind == Kind::Directory {
                    dirs.push(ino);
                }
                names.push((dirs[at], name, ino, kind));
            }
            at += 1;
        }
        (dirs, names)
    }

    /// One change. Some are refused.
    pub fn change(&mut self) {
        self.time_ns += 1_234_567;
        let now = TimeNs(self.time_ns);
        let (dirs, names) = self.places();
        let dir = dirs[self.rng.random_range(0..dirs.len())];
        let name = self.name();
        let what = self.rng.random_range(0..100);
        if what < 22 || names.is_empty() {
            let kind =
                [Kind::Regular, Kind::Regular, Kind::Directory, Kind::Symlink, Kind::Fifo, Kind::CharDevice]
                    [self.rng.random_range(0..6)];
            let target: &[u8] = if kind == Kind::Symlink { b"where/it/leads" } else { b"" };
            let rdev = if kind == Kind::CharDevice { 7 << 32 | 5 } else { 0 };
            let node = NewNode { kind, mode: 0o644, rdev, target };
            let made = self.volume.run(|vfs, _| vfs.make(now, ROOT, dir, &name, node, false));
            if let (Ok(attr), Kind::Regular) = (made, kind) {
                let bytes = self.bytes([400, 3 * BLOCK, 40 * BLOCK][what as usize % 3]);
                self.volume.write_all(attr.ino, 0, &bytes, false).unwrap();
            }
            return;
        }
        let (parent, old, ino, kind) = names[self.rng.random_range(0..names.len())].clone();
        let at = self.rng.random_range(0..60 * BLOCK as u64);
        let len = self.rng.random_range(1..20 * BLOCK as u64);
        let bytes = self.bytes(10 * BLOCK);
        let value = self.bytes(if what == 86 { 5000 } else { 60 });
        let (other, second, ..) = names[self.rng.random_range(0..names.len())].clone();
        let set = SetAttr {
            mode: Some(self.rng.random_range(0..0o10000)),
            uid: Some(self.rng.random_range(0..4)),
            gid: Some(self.rng.random_range(0..4)),
            mtime: Some(SetTime::At(TimeNs(self.time_ns / 2))),
            ..SetAttr::default()
        };
        let run = |op: &mut dyn FnMut(&mut Vfs<Lfs>) -> Outcome<()>| try_it(&self.volume, op);
        match what {
            22..42 if kind == Kind::Regular => {
                self.volume.write_all(ino, at, &bytes, false).unwrap();
            }
            42..47 => run(&mut |vfs| {
                vfs.setattr(now, ino, SetAttr { size_bytes: Some(at), ..SetAttr::default() }).map(drop)
            }),
            47..50 => run(&mut |vfs| vfs.fallocate(now, ino, Allocate::PunchHole, at, len, false).map(drop)),
            50..53 => run(&mut |vfs| vfs.fallocate(now, ino, Allocate::KeepSize, at, len, false).map(drop)),
            53..65 => run(&mut |vfs| vfs.rename(now, (parent, &old), (dir, &name), RenameMode::Replace)),
            65..68 => run(&mut |vfs| vfs.rename(now, (parent, &old), (other, &second), RenameMode::Exchange)),
            68..74 => run(&mut |vfs| vfs.link(now, ino, dir, &name, false).map(drop)),
            74..86 if kind == Kind::Directory => run(&mut |vfs| vfs.rmdir(now, parent, &old)),
            74..86 => run(&mut |vfs| vfs.unlink(now, parent, &old)),
            86..91 => run(&mut |vfs| vfs.setxattr(now, ino, b"user.x", &value, XattrMode::Any)),
            91..93 => run(&mut |vfs| vfs.removexattr(now, ino, b"user.x")),
            _ => run(&mut |vfs| vfs.setattr(now, ino, set).map(drop)),
        }
    }

    pub fn point(&mut self) -> Epoch {
        let point = self.volume.make_point(&format!("p{}", self.points.len())).unwrap();
        self.points.push((point.epoch, tree(&self.volume)));
        point.epoch
    }

    pub fn stream(&self, from: Option<usize>, to: usize, skip_bytes: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let from = from.map(|at| self.points[at].0);
        let sent =
            send(&self.volume, from, self.points[to].0, skip_bytes, &mut bytes, &mut |_| true).unwrap();
        assert_eq!(sent.bytes, bytes.len() as u64 + skip_bytes);
        bytes
    }
}
