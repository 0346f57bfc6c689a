use super::*;
use crate::hardware::find_disk;

fn view(name: &str, asked: &[&str]) -> DiskView {
    let asked: Vec<Asked> = asked.iter().map(|text| text.parse().unwrap()).collect();
    look(&find_disk(name).unwrap(), &asked).unwrap()
}

fn bandwidth(view: &DiskView, work: &str, pattern: &str, place: &str) -> f64 {
    let is_it = |b: &&Bandwidth| (b.work, b.pattern, b.place) == (work, pattern, place);
    view.bandwidths.iter().find(is_it).unwrap().mb_per_s
}

#[test]
fn requests_are_parsed_and_priced_in_parts_that_add_up() {
    let view = view("hp97560", &["r:0:64K", "r:64K:64K", "w:500M:4K", "f"]);
    assert_eq!(view.costs.len(), 4);
    for cost in &view.costs {
        let Cost { controller_ms, wait_ms, seek_ms, rotation_ms, media_ms, bus_ms, total_ms, .. } = cost;
        let sum = controller_ms + wait_ms + seek_ms + rotation_ms + media_ms + bus_ms;
        assert!((sum - total_ms).abs() < 1e-9, "{cost:?}");
    }
    assert_eq!(view.costs.iter().map(|cost| cost.is_hit).collect::<Vec<_>>(), [false, true, false, false]);
    assert!(view.costs[2].seek_ms > 5.0 && view.costs[3].total_ms == 0.0);
    for bad in ["x:0:1", "r:0", "r:0:0", "r:5:512", "r:-1:512", "w:1Q:512", "f:0:0"] {
        assert!(bad.parse::<Asked>().is_err(), "{bad}");
    }
    let beyond = ["r:2G:64K".parse().unwrap()];
    let error = look(&find_disk("hp97560").unwrap(), &beyond).unwrap_err().to_string();
    assert!(error.contains("beyond the disk"), "{error}");
}

#[test]
fn the_dsp_3105_reads_and_writes_as_usenix_95_says() {
    // Section 4: 1 MB is read in 435 ms and written in 588 ms; section 3.1: writes of 64 KB use 67% of the bandwidth of 2.5 MB/s. None
    // of the three is an input.
    let view = view("dsp3105", &[]);
    let read = bandwidth(&view, "read", "sequential", "outer");
    let write = bandwidth(&view, "write", "sequential", "outer");
    assert!((read / (1.0 / 0.435) - 1.0).abs() < 0.05, "{read} MB/s");
    assert!((write / (1.0 / 0.588) - 1.0).abs() < 0.1, "{write} MB/s");
    assert!((write / 2.5 - 0.67).abs() < 0.05, "{write} MB/s");
    // Table 2: 67 accesses a second, from an average seek and half a turn; here with overhead and transfer.
    let random = view.bandwidths.iter().find(|b| (b.work, b.pattern) == ("read", "random")).unwrap();
    assert!((13.0..19.0).contains(&random.request_ms), "{random:?}");
}

#[test]
fn every_disk_can_be_looked_at_and_arms_have_curves() {
    for name in ["hp97560", "wren4", "dsp3105", "m2694", "hdd", "ssd", "constant-hdd", "constant-ssd"] {
        let disk = find_disk(name).unwrap();
        let view = look(&disk, &["w:0:4K".parse().unwrap()]).unwrap();
        assert!(view.bandwidths.iter().all(|b| b.mb_per_s > 0.01 && b.mb_per_s < 1e5), "{view:?}");
        let sequential = bandwidth(&view, "read", "sequential", "outer");
        assert!(sequential >= bandwidth(&view, "read", "random", "all"), "{view:?}");
        match view.kind {
            "mechanical" => {
                let (svg, csv) = curve(&disk).unwrap();
                assert!(svg.starts_with("<svg") && svg.contains(&view.title) && !svg.contains("NaN"));
                assert!(csv.contains("seek,") && csv.lines().count() > 100, "{csv}");
                assert!(view.seeks.unwrap().curve.windows(2).all(|pair| pair[0].1 <= pair[1].1 * 1.01));
            }
            _ => assert!(view.seeks.is_none() && curve(&disk).is_err()),
        }
    }
}

#[test]
fn the_hp_97560_shows_the_figures_of_bsd_lfs() {
    let view = view("hp97560", &[]);
    let seeks = view.seeks.as_ref().unwrap();
    assert!((seeks.mean_ms / 13.0 - 1.0).abs() < 0.02, "table 5: 13.0 ms, not {}", seeks.mean_ms);
    assert_eq!(seeks.curve.first(), Some(&(1, 3.64)));
    // Reads are as fast as the bus of 1.6 MB/s, less a millisecond of overhead for each 41.
    let read = bandwidth(&view, "read", "sequential", "inner");
    assert!((read / 1.56 - 1.0).abs() < 0.02, "{read}");
}
