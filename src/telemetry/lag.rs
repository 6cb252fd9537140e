//! The lag metrics in Prometheus' text format: made anew at each scrape rather than kept, so that
//! a group that is gone has no series, and a figure that is not known no value.

use std::fmt::Write as _;

use super::{
    GROUP_DRAIN, GROUP_LAG_RECORDS, GROUP_LAG_REFUSED, GROUP_LAG_SECONDS, GROUP_LAG_STATUS,
    GROUP_LAG_WATCHED, GROUP_LOST_RECORDS, GROUP_TIME_TO_LOSS, METRICS,
};
use crate::lag::partition::Figures;
use crate::lag::service::LagRow;

/// The metrics of a group on a partition, in their order.
const NAMES: [&str; 6] = [
    GROUP_LAG_RECORDS,
    GROUP_LAG_SECONDS,
    GROUP_TIME_TO_LOSS,
    GROUP_DRAIN,
    GROUP_LAG_STATUS,
    GROUP_LOST_RECORDS,
];

/// Their values; `None` where not known.
type Values = [Option<f64>; 6];

/// Collects the series of one scrape, up to a limit.
pub struct LagExposition {
    texts: [String; 6],
    left: usize,
}

impl LagExposition {
    /// An empty one with room for the series of `limit` groups' partitions.
    #[must_use]
    pub fn new(limit: usize) -> LagExposition {
        LagExposition { texts: NAMES.map(heading), left: limit }
    }

    /// Takes a group in: each of its partitions while there is room for all of them, else one
    /// series for the whole group.
    pub fn group(&mut self, group: &str, rows: &[LagRow]) {
        let fits = rows.len() <= self.left;
        if !fits {
            self.write(&format!("group=\"{}\"", escaped(group)), whole_group(rows));
            return;
        }
        self.left -= rows.len();
        for row in rows {
            let labels = format!(
                "group=\"{}\",topic=\"{}\",partition=\"{}\"",
                escaped(group),
                escaped(&row.topic),
                row.partition
            );
            self.write(&labels, values(&row.figures));
        }
    }

    fn write(&mut self, labels: &str, values: Values) {
        for ((text, name), value) in self.texts.iter_mut().zip(NAMES).zip(values) {
            if let Some(value) = value {
                let _ = writeln!(text, "{name}{{{labels}}} {value}");
            }
        }
    }

    /// The text, with how many pairs are watched and how many commits of others were refused.
    #[must_use]
    pub fn finish(self, (watched, refused): (usize, u64)) -> String {
        let mut out: String = self.texts.concat();
        for (name, value) in [(GROUP_LAG_WATCHED, watched as u64), (GROUP_LAG_REFUSED, refused)] {
            let _ = writeln!(out, "{}{name} {value}", heading(name));
        }
        out
    }
}

fn values(figures: &Figures) -> Values {
    [
        figures.lag_records.ok().map(|records| records as f64),
        figures.lag_seconds.ok(),
        figures.time_to_loss_seconds.ok(),
        figures.drain_seconds.ok(),
        figures.status.ok().map(|status| f64::from(status.number())),
        Some(figures.lost_records as f64),
    ]
}

/// Of a whole group: sums of records, the least time to loss, and the largest of everything else.
fn whole_group(rows: &[LagRow]) -> Values {
    let of_rows = |at: usize| rows.iter().filter_map(move |row| values(&row.figures)[at]);
    let sum = |at| of_rows(at).reduce(|a, b| a + b);
    let (least, largest) = (|at| of_rows(at).reduce(f64::min), |at| of_rows(at).reduce(f64::max));
    [sum(0), largest(1), least(2), largest(3), largest(4), sum(5)]
}

fn heading(name: &str) -> String {
    let spec = METRICS.iter().find(|metric| metric.name == name);
    let Some(spec) = spec else { return String::new() };
    format!("# HELP {name} {}\n# TYPE {name} {}\n", spec.help, spec.kind.name())
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use protocol::types::{LeaderEpoch, Offset, PartitionId, Timestamp};

    use super::*;
    use crate::lag::partition::Commit;
    use crate::lag::window::Status;

    fn row(partition: i32, lag: u64) -> LagRow {
        let at = Timestamp(0);
        LagRow {
            topic: "t\"".into(),
            partition: PartitionId(partition),
            figures: Figures {
                commit: Commit { offset: Offset(0), leader_epoch: LeaderEpoch(0), at },
                log_start_offset: Ok(Offset(0)),
                end_offset: Ok(Offset(9)),
                lag_records: Ok(lag),
                lag_seconds: Ok(lag as f64 / 2.0),
                commit_rate: Err("unknown"),
                produce_rate: Err("unknown"),
                drain_seconds: Err("unknown"),
                time_to_loss_seconds: Ok(100.0 - lag as f64),
                status: Ok(if lag > 5 { Status::Stop } else { Status::Ok }),
                lost_records: 1,
                lost: Vec::new(),
            },
        }
    }

    fn series(text: &str) -> Vec<&str> {
        text.lines().filter(|line| !line.starts_with('#')).collect()
    }

    #[test]
    fn a_group_that_does_not_fit_has_one_series_for_all_of_it() {
        let mut exposition = LagExposition::new(2);
        exposition.group("a", &[row(0, 3)]);
        exposition.group("b", &[row(0, 4), row(1, 7)]);
        exposition.group("c", &[row(0, 5)]);
        let text = exposition.finish((4, 0));
        let records: Vec<_> =
            series(&text).into_iter().filter(|line| line.contains("lag_records")).collect();
        assert_eq!(
            records,
            [
                r#"highwater_group_lag_records{group="a",topic="t\"",partition="0"} 3"#,
                r#"highwater_group_lag_records{group="b"} 11"#,
                r#"highwater_group_lag_records{group="c",topic="t\"",partition="0"} 5"#,
            ]
        );
        for whole in [
            "highwater_group_lag_seconds{group=\"b\"} 3.5",
            "highwater_group_lag_time_to_loss_seconds{group=\"b\"} 93",
            "highwater_group_lag_status{group=\"b\"} 4",
            "highwater_group_lag_lost_records_total{group=\"b\"} 2",
            "highwater_group_lag_watched 4",
        ] {
            assert!(series(&text).contains(&whole), "{whole} in {text}");
        }
        // What is not known has no series.
        assert!(!text.contains("drain_seconds{"));
    }
}
