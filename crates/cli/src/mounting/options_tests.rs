use super::*;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: MountArgs,
}

fn resolve(line: &str) -> Done<MountPlan> {
    Line::try_parse_from(std::iter::once("mount").chain(line.split(' ')))
        .map_err(|e| Failure::usage(e.to_string()))?
        .args
        .resolve()
}

/// The options of a command line as words that a remount applies.
fn words(line: &str) -> String {
    let line = Line::try_parse_from(std::iter::once("mount").chain(line.split(' ')));
    let (shared, own) = line.unwrap_or_else(|e| panic!("{e}")).args.words();
    [shared, own].concat().join(",")
}

#[test]
fn options_of_fstab_and_of_the_command_line_mean_the_same() {
    let from_fstab = resolve(
        "a.img /mnt -o ro,cache=1G,threads=7,commit=2,writeback,nofail,\
                              checkpoint=9,checkpoint_bytes=8M,cleaning_policy=greedy,placement=dac:4,coalesce=120,\
                              idle_after=0.5,idle_rate=8M,rotational=no",
    )
    .unwrap();
    let line = "a.img /mnt -o ro --cache 1G --threads 7 --commit-interval 2 --writeback \
                --checkpoint-interval 9 --checkpoint-bytes 8M --cleaning-policy greedy --placement dac:4 \
                --coalesce-after 120 --idle-after 0.5 --idle-rate 8M --rotational no";
    assert_eq!(from_fstab, resolve(line).unwrap());
    assert_eq!(from_fstab, resolve(&format!("a.img /mnt -o {}", words(line))).unwrap());
    assert_eq!((from_fstab.idle_after_ms, from_fstab.idle_bytes_per_s), (500, Some(8 << 20)));
    assert_eq!((from_fstab.checkpoint_interval_ms, from_fstab.checkpoint_bytes), (9000, 8 << 20));
    assert_eq!(from_fstab.coalesce_age_ms, Some(120_000));
    assert_eq!(from_fstab.rotational, Some(false));
    assert_eq!(resolve("a.img /mnt --rotational auto -o rotational=yes").unwrap().rotational, None);
    assert_eq!(resolve("a.img /mnt -o nocoalesce").unwrap().coalesce_age_ms, None);
    assert_eq!((from_fstab.cache_bytes, from_fstab.commit_interval_ms), (1 << 30, 2000));
}

#[test]
fn long_options_win_over_those_of_fstab() {
    assert_eq!(resolve("a.img /mnt --threads 3 -o threads=9").unwrap().threads, 3);
}

#[test]
fn nonsense_is_refused_with_the_name_of_the_option() {
    for (line, named) in [
        ("a.img /mnt -o nosuch", "nosuch"),
        ("a.img /mnt -o threads=many", "threads=many"),
        ("a.img /mnt --threads 0", "threads"),
        ("a.img /mnt --cache lots", "cache"),
        ("a.img /mnt --commit-interval 0", "commit: 0 s is not between 0.1 and 3600"),
        ("a.img /mnt --checkpoint-interval 0.5", "checkpoint: 0.5 s"),
        ("a.img /mnt --record f --record-part-size 4K", "size of a part"),
        ("a.img /mnt --record-hash-names", "--record"),
        ("a.img /mnt --checkpoint-bytes 4K", "checkpoint_bytes: 4K is not between 1M and 1T"),
        ("a.img /mnt --cache 1k", "cache: 1K is not between 4M and 1P"),
        ("a.img /mnt -o cache=4194303", "cache: 4194303 is not between 4M and 1P"),
        ("a.img /mnt -o checkpoint=soon", "checkpoint=soon"),
        ("a.img /mnt -o cleaning_policy=lru", "cleaning_policy=lru"),
        ("a.img /mnt --placement oracle", "placement"),
        ("a.img /mnt -o coalesce=-1", "coalesce"),
        ("a.img /mnt --coalesce-after nan", "coalesce"),
        ("a.img /mnt -o rotational=fast", "rotational"),
        ("a.img /mnt -o metrics=somewhere", "metrics"),
        ("a.img", "mountpoint"),
        ("--memory 1G a.img /mnt", "--memory"),
        ("--memory many /mnt", "--memory"),
    ] {
        let failure = resolve(line).unwrap_err();
        assert!(failure.message.contains(named), "{line}: {failure}");
    }
}
