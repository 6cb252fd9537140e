//! What was measured, as numbers by round, and as JSON.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::race::Who;

/// Whether more or less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Throughput.
    More,
    /// Time, memory, processor time.
    Less,
}

/// What a row is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// A table of its own.
    pub group: String,
    /// What was done.
    pub name: String,
    /// What was measured, with its unit.
    pub metric: String,
    /// Which way is up.
    pub better: Better,
}

impl Key {
    /// A key.
    pub fn new(group: &str, name: &str, metric: &str, better: Better) -> Key {
        let (group, name, metric) = (group.to_owned(), name.to_owned(), metric.to_owned());
        Key { group, name, metric, better }
    }
}

/// One measurement of all rounds.
#[derive(Debug, Clone)]
pub struct Row {
    /// What it is about.
    pub key: Key,
    /// Ours, by round.
    pub highwater: Vec<f64>,
    /// Kafka's, by round.
    pub kafka: Vec<f64>,
    /// A receiver's that does nothing but append, by round.
    pub limit: Vec<f64>,
}

impl Row {
    /// How many times better ours is, by round.
    pub fn ratios(&self) -> Vec<f64> {
        let pairs = self.highwater.iter().zip(&self.kafka);
        pairs
            .map(|(ours, kafkas)| match self.key.better {
                Better::More => ours / kafkas,
                Better::Less => kafkas / ours,
            })
            .filter(|ratio| ratio.is_finite())
            .collect()
    }
}

/// Median of some numbers.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Smallest and largest.
pub fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    let most = values.iter().copied().max_by(f64::total_cmp)?;
    Some((least, most))
}

/// Everything that was measured.
#[derive(Debug, Clone)]
pub struct Results {
    /// Where, when and how long.
    pub about: Value,
    /// In the order in which they came.
    pub rows: Vec<Row>,
}

impl Results {
    /// Nothing yet.
    pub fn new(rounds: usize, seconds: f64) -> Results {
        let about = json!({
            "rounds": rounds,
            "seconds_of_each_load": seconds,
            "processor": processor(),
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "kernel": first_line("/proc/sys/kernel/osrelease"),
        });
        Results { about, rows: Vec::new() }
    }

    /// Adds a round's value of one broker.
    pub fn add(&mut self, who: Who, key: Key, value: f64) {
        let row = self.row(key);
        match who {
            Who::Highwater => row.highwater.push(value),
            Who::Kafka => row.kafka.push(value),
        }
    }

    /// Adds a round's value of the receiver that only appends.
    pub fn add_limit(&mut self, key: Key, value: f64) {
        self.row(key).limit.push(value);
    }

    fn row(&mut self, key: Key) -> &mut Row {
        let index = self.rows.iter().position(|row| row.key == key).unwrap_or_else(|| {
            let (highwater, kafka, limit) = (Vec::new(), Vec::new(), Vec::new());
            self.rows.push(Row { key, highwater, kafka, limit });
            self.rows.len() - 1
        });
        &mut self.rows[index]
    }

    /// Writes `results.json`.
    pub fn write(&self, dir: &Path) -> Result<(), String> {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "group": row.key.group,
                    "name": row.key.name,
                    "metric": row.key.metric,
                    "more_is_better": row.key.better == Better::More,
                    "highwater": row.highwater,
                    "kafka": row.kafka,
                    "limit": row.limit,
                    "ratios": row.ratios(),
                })
            })
            .collect();
        let all = json!({ "about": self.about, "rows": rows });
        let text = serde_json::to_string_pretty(&all).map_err(|error| error.to_string())?;
        fs::create_dir_all(dir).map_err(|error| error.to_string())?;
        fs::write(dir.join("results.json"), text + "\n").map_err(|error| error.to_string())
    }

    /// Reads `results.json`.
    pub fn read(dir: &Path) -> Result<Results, String> {
        let path = dir.join("results.json");
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let all: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let numbers = |row: &Value, name: &str| {
            row[name].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
        };
        let rows = all["rows"].as_array().into_iter().flatten().map(|row| Row {
            key: Key {
                group: text(row, "group"),
                name: text(row, "name"),
                metric: text(row, "metric"),
                better: match row["more_is_better"].as_bool() {
                    Some(true) => Better::More,
                    _ => Better::Less,
                },
            },
            highwater: numbers(row, "highwater"),
            kafka: numbers(row, "kafka"),
            limit: numbers(row, "limit"),
        });
        Ok(Results { rows: rows.collect(), about: all["about"].clone() })
    }
}

fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("model name"));
    line.unwrap_or_default().trim_start_matches([' ', '\t', ':']).to_owned()
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_ratio_says_how_many_times_better_ours_is() {
        let row = |better| Row {
            key: Key::new("g", "n", "m", better),
            highwater: vec![4.0],
            kafka: vec![2.0],
            limit: Vec::new(),
        };
        assert_eq!(row(Better::More).ratios(), [2.0]);
        assert_eq!(row(Better::Less).ratios(), [0.5]);
    }

    #[test]
    fn results_come_back_from_their_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut results = Results::new(2, 0.5);
        let key = Key::new("g", "n", "MB/s", Better::More);
        results.add(Who::Highwater, key.clone(), 5.0);
        results.add(Who::Kafka, key.clone(), 2.0);
        results.add_limit(key.clone(), 9.0);
        results.write(dir.path()).expect("written");
        let read = Results::read(dir.path()).expect("read");
        assert_eq!(read.about, results.about);
        assert_eq!((&read.rows[0].key, &read.rows[0].limit), (&key, &vec![9.0]));
        assert_eq!(read.rows[0].ratios(), [2.5]);
    }
}
