//! Limits from theory: the cost of greedy cleaning under uniform writes, and of any policy when blocks that are written
//! equally often are separated from all others.
//!
//! A segment whose blocks die at random has u = exp(-age * rate) when it is cleaned. With U the share of live blocks among
//! all: U = (1 - u) / (-ln u), solved by Lambert's W (Menon 1995, Desnoyers 2014). With separate groups, each has its own
//! u, and the spare space is divided so that no block of it would save more elsewhere. With a price p for space, that means
//! (1-u)/u + ln u = rate / p for every group.

/// Blocks that are written equally often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// Share of the data, 0 to 1.
    pub of_data: f64,
    /// Share of the writes, 0 to 1.
    pub of_writes: f64,
}

/// Blocks written to the log for each new block, if `utilisation` of the cleaned segments was live.
#[must_use]
pub fn amplification(cleaned_utilisation: f64) -> f64 {
    1.0 / (1.0 - cleaned_utilisation)
}

/// Live share of the segments that are cleaned, for uniform writes on a disk with live share `utilisation` (0 to 1).
#[must_use]
pub fn cleaned_utilisation(utilisation: f64) -> f64 {
    bisect(0.0, 1.0, |u| disk_utilisation(u) - utilisation)
}

/// Least possible write amplification for perfectly separated groups, on a disk with live share `utilisation`.
#[must_use]
pub fn ideal_separation(groups: &[Group], utilisation: f64) -> f64 {
    let groups: Vec<Group> = groups.iter().copied().filter(|g| g.of_data > 0.0).collect();
    let space = |ln_price: f64| -> f64 {
        groups.iter().map(|g| g.of_data / disk_utilisation(cleaned_at(g, ln_price))).sum()
    };
    // A higher price: less space.
    let ln_price = bisect(-60.0, 60.0, |ln_price| 1.0 / utilisation - space(ln_price));
    groups.iter().map(|g| g.of_writes * amplification(cleaned_at(g, ln_price))).sum()
}

/// Zipf popularity, rank r written in proportion to r^-exponent, as groups of ranks that differ by less than a few percent.
#[must_use]
pub fn zipf_groups(blocks: u32, exponent: f64) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut rank = 1u64;
    while rank <= u64::from(blocks) {
        let end = (rank + rank / 64).min(u64::from(blocks));
        let weight: f64 = (rank..=end).map(|r| (r as f64).powf(-exponent)).sum();
        groups.push(Group { of_data: (end - rank + 1) as f64 / f64::from(blocks), of_writes: weight });
        rank = end + 1;
    }
    let all: f64 = groups.iter().map(|g| g.of_writes).sum();
    groups.iter_mut().for_each(|g| g.of_writes /= all);
    groups
}

/// Live share of a disk whose segments are cleaned at live share u: the mean of exp(-x) for x from 0 to -ln u.
fn disk_utilisation(u: f64) -> f64 {
    (1.0 - u) / -u.ln()
}

/// The live share at which it is best to clean a group's segments.
fn cleaned_at(group: &Group, ln_price: f64) -> f64 {
    let target = group.of_writes / group.of_data / ln_price.exp();
    // By y = -ln u, so that groups that die fast (u near 0) and slowly (u near 1) are both resolved.
    let y = bisect(-40.0, 6.0, |ln_y| {
        let y = ln_y.exp();
        // exp(y) - 1 - y, without cancellation.
        let gain = if y < 1e-4 { y * y / 2.0 } else { y.exp_m1() - y };
        gain - target
    })
    .exp();
    (-y).exp().min(1.0 - 1e-15)
}

/// Where an increasing function crosses zero.
fn bisect(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if f(middle) < 0.0 { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, tolerance: f64) -> bool {
        (a / b - 1.0).abs() < tolerance
    }

    #[test]
    fn the_uniform_limit_is_the_published_one() {
        for (utilisation, cleaned, wa) in
            [(0.5, 0.203, 1.255), (0.75, 0.546, 2.201), (0.9, 0.807, 5.179), (0.95, 0.902, 10.17)]
        {
            assert!(near(cleaned_utilisation(utilisation), cleaned, 0.002), "{utilisation}");
            assert!(near(amplification(cleaned_utilisation(utilisation)), wa, 0.002), "{utilisation}");
        }
    }

    #[test]
    fn ideal_separation_of_hot_and_cold_is_the_published_one() {
        let groups = [Group { of_data: 0.1, of_writes: 0.9 }, Group { of_data: 0.9, of_writes: 0.1 }];
        for (utilisation, wa) in
            [(0.5, 1.053), (0.6, 1.11), (0.75, 1.322), (0.85, 1.759), (0.9, 2.336), (0.95, 4.112)]
        {
            let found = ideal_separation(&groups, utilisation);
            assert!(near(found, wa, 0.002), "{utilisation}: {found}");
        }
    }

    #[test]
    fn groups_that_are_alike_are_one_group() {
        let alike = [Group { of_data: 0.25, of_writes: 0.25 }, Group { of_data: 0.75, of_writes: 0.75 }];
        for utilisation in [0.3, 0.6, 0.9, 0.98] {
            let one = amplification(cleaned_utilisation(utilisation));
            assert!(near(ideal_separation(&alike, utilisation), one, 1e-6), "{utilisation}");
        }
    }

    #[test]
    fn zipf_groups_add_up_and_flat_popularity_is_uniform() {
        let groups = zipf_groups(100_000, 1.0);
        let sum = |f: fn(&Group) -> f64| groups.iter().map(f).sum::<f64>();
        assert!(near(sum(|g| g.of_data), 1.0, 1e-9) && near(sum(|g| g.of_writes), 1.0, 1e-9));
        let flat = ideal_separation(&zipf_groups(100_000, 0.0), 0.8);
        assert!(near(flat, amplification(cleaned_utilisation(0.8)), 1e-6));
        assert!(ideal_separation(&groups, 0.8) < flat);
    }
}
