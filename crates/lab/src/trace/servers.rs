//! The servers of Blackwell, Harris and Seltzer, table 2: what the generator is calibrated to.
//!
//! The counts are published. The gaps between bursts and the time between requests are not: they are ours, chosen so that bursts keep
//! the disk busy for seconds and leave it idle for tens of seconds, as the text describes. So the idle times that follow from them are
//! no results about the paper's servers.

/// A server.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its name in the paper.
    pub title: &'static str,
    /// Days that its trace spans. Cellar's are 16 in the table and 12 in the text.
    pub days: f64,
    /// NFS requests of all kinds.
    pub requests: f64,
    /// Requests that read data.
    pub reads: f64,
    /// Requests that write data.
    pub writes: f64,
    /// Lookups and lists of directories.
    pub directory_reads: f64,
    /// Creates, removes, renames, of files and directories.
    pub directory_changes: f64,
    /// Changes of inodes, those with writes and changes of directories among them: the table's other rows add up to nearly as many.
    pub inode_updates: f64,
    /// Size of the file system in bytes.
    pub size_bytes: f64,
    /// Seconds between the beginnings of bursts, on average over the day. Not published.
    pub burst_gap_s: f64,
    /// Milliseconds between the requests of a burst, on average. Not published.
    pub think_ms: f64,
    /// Clients.
    pub clients: u32,
    /// Seconds between the turns of a process that reads something each time.
    pub period_s: Option<f64>,
}

const GB: f64 = 1e9;

/// The three servers.
pub const SERVERS: [Server; 3] = [
    Server {
        name: "attic",
        title: "Attic",
        days: 9.0,
        requests: 4.0e6,
        reads: 835e3,
        writes: 349e3,
        directory_reads: 1.9e6,
        directory_changes: 43e3,
        inode_updates: 427e3,
        size_bytes: 4.0 * GB,
        burst_gap_s: 45.0,
        think_ms: 12.0,
        clients: 88,
        period_s: Some(120.0),
    },
    Server {
        name: "cellar",
        title: "Cellar",
        days: 16.0,
        requests: 1.5e6,
        reads: 177e3,
        writes: 194e3,
        directory_reads: 0.9e6,
        directory_changes: 13e3,
        inode_updates: 215e3,
        size_bytes: 1.0 * GB,
        burst_gap_s: 70.0,
        think_ms: 12.0,
        clients: 88,
        period_s: None,
    },
    Server {
        name: "maytag",
        title: "Maytag",
        days: 2.5,
        requests: 7.5e6,
        reads: 495e3,
        writes: 330e3,
        directory_reads: 2.3e6,
        directory_changes: 410e3,
        inode_updates: 764e3,
        size_bytes: 8.0 * GB,
        burst_gap_s: 20.0,
        think_ms: 6.0,
        clients: 79,
        period_s: None,
    },
];

impl Server {
    /// The server of a name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        SERVERS.iter().find(|server| server.name == name)
    }

    /// Changes of attributes by themselves: inode updates that belong to no write and no change of a directory.
    #[must_use]
    pub fn setattrs(&self) -> f64 {
        self.inode_updates - self.writes - self.directory_changes
    }

    /// Requests of no other row: getattr, readlink, statfs.
    #[must_use]
    pub fn others(&self) -> f64 {
        self.requests
            - self.reads
            - self.writes
            - self.directory_reads
            - self.directory_changes
            - self.setattrs()
    }
}
