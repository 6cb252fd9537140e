//! Loads by clients that others wrote: librdkafka, and the producer of Kafka's own tools.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::load::new_topic;
use crate::race::{Turn, output_of};
use crate::results::Better;
use crate::{Settings, ballast};

/// A load of librdkafka.
#[derive(Debug, Clone, Copy)]
pub struct LibrdkafkaShape {
    pub record_bytes: usize,
    pub batch_bytes: usize,
    pub partitions: i32,
    pub acks: i16,
    pub codec: &'static str,
}

/// A load of `kafka-producer-perf-test`, 12 partitions, acks=all.
#[derive(Debug, Clone, Copy)]
pub struct PerfTest {
    pub record_bytes: usize,
    pub records: u64,
}

/// Partitions of a topic for the perf test.
const PERF_TEST_PARTITIONS: i32 = 12;

/// The clients, built and found.
#[derive(Debug, Default)]
pub struct Tools {
    librdkafka_load: Option<PathBuf>,
    class_path: Option<String>,
}

impl Tools {
    /// Builds what has to be built: the first time librdkafka takes two minutes.
    pub fn prepare(settings: &Settings) -> Result<Tools, String> {
        if !settings.with_tools {
            return Ok(Tools::default());
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let built = output_of(&mut Command::new(folder.join("librdkafka-load/build.sh")));
        let librdkafka_load = match built {
            Ok(path) => Some(PathBuf::from(path.trim())),
            Err(error) => {
                eprintln!("librdkafka is left out, it cannot be built: {error}");
                None
            }
        };
        let class_path = output_of(&mut Command::new(folder.join("java/class-path.sh")))?;
        Ok(Tools { librdkafka_load, class_path: Some(class_path.trim().to_owned()) })
    }

    /// Produces with librdkafka.
    pub fn produce(
        &self,
        turn: &mut Turn,
        shapes: &[(String, LibrdkafkaShape)],
    ) -> Result<(), String> {
        let Some(program) = &self.librdkafka_load else { return Ok(()) };
        for (name, shape) in shapes {
            let topic = new_topic();
            turn.broker.connect().create_topic(&topic, shape.partitions);
            ballast::make_room(ballast::ROOM_GIBIBYTES);
            let cpu = turn.broker.cpu_time();
            let line = output_of(
                Command::new(program)
                    .arg("produce")
                    .arg(turn.broker.address().to_string())
                    .arg(&topic)
                    .arg(shape.record_bytes.to_string())
                    .arg(shape.batch_bytes.to_string())
                    .arg(shape.acks.to_string())
                    .arg(shape.codec)
                    .arg(turn.settings.each.as_secs_f64().to_string()),
            )?;
            let cpu = turn.broker.cpu_time().saturating_sub(cpu).as_secs_f64();
            report(turn, "produce with librdkafka", name, &line, cpu)?;
            turn.broker.connect().delete_topic(&topic);
        }
        Ok(())
    }

    /// Consumes a backlog with librdkafka.
    pub fn consume(
        &self,
        turn: &mut Turn,
        topic: &str,
        partitions: i32,
        records: u64,
        name: &str,
    ) -> Result<(), String> {
        let Some(program) = &self.librdkafka_load else { return Ok(()) };
        let cpu = turn.broker.cpu_time();
        let line = output_of(
            Command::new(program)
                .arg("consume")
                .arg(turn.broker.address().to_string())
                .arg(topic)
                .arg(partitions.to_string())
                .arg(records.to_string()),
        )?;
        let cpu = turn.broker.cpu_time().saturating_sub(cpu).as_secs_f64();
        report(turn, "consume", &format!("{name}, librdkafka"), &line, cpu)
    }

    /// Produces with Kafka's own tool.
    pub fn producer_perf_test(
        &self,
        turn: &mut Turn,
        tests: &[(String, PerfTest)],
    ) -> Result<(), String> {
        let Some(class_path) = &self.class_path else { return Ok(()) };
        for (name, test) in tests {
            let topic = new_topic();
            turn.broker.connect().create_topic(&topic, PERF_TEST_PARTITIONS);
            ballast::make_room(ballast::ROOM_GIBIBYTES);
            let records = if turn.settings.quick { test.records / 20 } else { test.records };
            let cpu = turn.broker.cpu_time();
            let text = output_of(
                Command::new("java")
                    .args(["-Xmx512m", "-cp", class_path])
                    .arg("org.apache.kafka.tools.ProducerPerformance")
                    .args(["--topic", &topic, "--throughput", "-1"])
                    .args(["--num-records", &records.to_string()])
                    .args(["--record-size", &test.record_bytes.to_string()])
                    .args(["--bootstrap-server", &turn.broker.address().to_string()])
                    .args(["--command-property", "acks=all"]),
            )?;
            let cpu = turn.broker.cpu_time().saturating_sub(cpu).as_secs_f64();
            let gigabytes = (records * test.record_bytes as u64) as f64 / 1e9;
            let rate = records_per_second(&text)
                .ok_or_else(|| format!("the tool's last line is not understood: {text}"))?;
            let megabytes = rate * test.record_bytes as f64 / 1e6;
            let group = "produce with kafka-producer-perf-test";
            turn.add(group, name, "MB/s", Better::More, megabytes);
            turn.add(group, name, "CPU-s/GB", Better::Less, cpu / gigabytes);
            turn.broker.connect().delete_topic(&topic);
        }
        Ok(())
    }
}

/// From a line as `150000 records sent, 84985.8 records/sec (81.05 MB/sec), …`: the last one.
fn records_per_second(text: &str) -> Option<f64> {
    let line = text.lines().rev().find(|line| line.contains("records/sec"))?;
    let before = line.split("records/sec").next()?;
    before.trim_end().rsplit(' ').next()?.parse().ok()
}

fn report(
    turn: &mut Turn,
    group: &str,
    name: &str,
    line: &str,
    broker_cpu: f64,
) -> Result<(), String> {
    let value: Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
    let number = |field: &str| value[field].as_f64().ok_or(format!("{line} has no {field}"));
    let (bytes, seconds) = (number("bytes")?, number("seconds")?);
    turn.add(group, name, "MB/s", Better::More, bytes / 1e6 / seconds);
    turn.add(group, name, "CPU-s/GB", Better::Less, broker_cpu / (bytes / 1e9));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_the_perf_test_has_the_rate() {
        let text = "1 records sent, 7.0 records/sec (0.1 MB/sec), 3 ms avg latency\n\
                    150000 records sent, 84985.8 records/sec (81.05 MB/sec), 300 ms avg\n";
        assert_eq!(records_per_second(text), Some(84_985.8));
        assert_eq!(records_per_second("nothing"), None);
    }
}
