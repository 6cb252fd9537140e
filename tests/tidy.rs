//! The rules of the repository, as tests: which crate may know which, what pure files may not do,
//! how long things may be, what every file must have.
//!
//! A rule that is broken already stands in a ratchet list: what is listed may shrink, not grow.

#[path = "tidy/source.rs"]
mod source;

use std::collections::BTreeSet;
use std::path::Path;

use highwater::handlers::TABLE;
use source::{Source, repository, sources};

/// Files that are pure. A file that opens with a `//! Pure:` line must be listed, and a listed one
/// must have the line, so that the mark cannot be dropped quietly.
const PURE: &[&str] = &[
    "cluster/src/controller/placement.rs",
    "cluster/src/controller/reassignment.rs",
    "cluster/src/controller/survivors.rs",
    "cluster/src/controller/view.rs",
    "cluster/src/metadata/apply.rs",
    "cluster/src/metadata/brokers.rs",
    "cluster/src/metadata/command.rs",
    "cluster/src/metadata/configs.rs",
    "cluster/src/metadata/image.rs",
    "cluster/src/metadata/producer_ids.rs",
    "cluster/src/metadata/reassignments.rs",
    "cluster/src/metadata/topic_name.rs",
    "cluster/src/metadata/topics.rs",
    "cluster/src/metadata/unclean.rs",
    "cluster/src/replica/in_sync.rs",
    "cluster/src/replica/quota.rs",
    "compat-tests/src/bin/chaos/checker/context.rs",
    "compat-tests/src/bin/chaos/checker/mod.rs",
    "compat-tests/src/bin/chaos/history.rs",
    "compat-tests/src/bin/chaos/rules.rs",
    "compat-tests/src/bin/chaos/schedule.rs",
    "compat-tests/src/bin/chaos/stalls.rs",
    "compat-tests/src/pauses.rs",
    "protocol/src/api.rs",
    "protocol/src/compression.rs",
    "protocol/src/consumer_protocol.rs",
    "protocol/src/error_code.rs",
    "protocol/src/fetch_response.rs",
    "protocol/src/frame.rs",
    "protocol/src/header.rs",
    "protocol/src/record_batch/builder.rs",
    "protocol/src/record_batch/control.rs",
    "protocol/src/record_batch/crc.rs",
    "protocol/src/record_batch/header.rs",
    "protocol/src/record_batch/mod.rs",
    "protocol/src/record_batch/records.rs",
    "protocol/src/record_batch/validate.rs",
    "protocol/src/record_batch/walk.rs",
    "protocol/src/request.rs",
    "protocol/src/response.rs",
    "protocol/src/types.rs",
    "protocol/src/varint.rs",
    "src/cli/duration.rs",
    "src/cli/table.rs",
    "src/config/alter.rs",
    "src/config/definitions.rs",
    "src/config/definitions/group.rs",
    "src/config/definitions/groups.rs",
    "src/config/definitions/log.rs",
    "src/config/definitions/network.rs",
    "src/config/definitions/reasons.rs",
    "src/config/definitions/remote.rs",
    "src/config/definitions/replication.rs",
    "src/config/definitions/security.rs",
    "src/config/definitions/server.rs",
    "src/config/definitions/topic.rs",
    "src/config/definitions/transactions.rs",
    "src/config/describe.rs",
    "src/config/environment.rs",
    "src/config/group.rs",
    "src/config/listeners.rs",
    "src/config/peer_security.rs",
    "src/config/peers.rs",
    "src/config/properties.rs",
    "src/config/topic.rs",
    "src/config/value.rs",
    "src/coordinator/group/admin.rs",
    "src/coordinator/group/assignor.rs",
    "src/coordinator/group/assignor/range.rs",
    "src/coordinator/group/assignor/uniform.rs",
    "src/coordinator/group/classic.rs",
    "src/coordinator/group/classic/describe.rs",
    "src/coordinator/group/classic/join.rs",
    "src/coordinator/group/classic/member.rs",
    "src/coordinator/group/classic/rebalance.rs",
    "src/coordinator/group/classic/state.rs",
    "src/coordinator/group/classic/sync.rs",
    "src/coordinator/group/codec.rs",
    "src/coordinator/group/config.rs",
    "src/coordinator/group/consumer.rs",
    "src/coordinator/group/consumer/classic_member.rs",
    "src/coordinator/group/consumer/describe.rs",
    "src/coordinator/group/consumer/group.rs",
    "src/coordinator/group/consumer/heartbeat.rs",
    "src/coordinator/group/consumer/leave.rs",
    "src/coordinator/group/consumer/migration.rs",
    "src/coordinator/group/consumer/offsets.rs",
    "src/coordinator/group/consumer/reconcile.rs",
    "src/coordinator/group/consumer/subscription.rs",
    "src/coordinator/group/consumer/target.rs",
    "src/coordinator/group/event.rs",
    "src/coordinator/group/event/consumer.rs",
    "src/coordinator/group/event/rewind.rs",
    "src/coordinator/group/hard.rs",
    "src/coordinator/group/limits.rs",
    "src/coordinator/group/mod.rs",
    "src/coordinator/group/offsets.rs",
    "src/coordinator/group/record.rs",
    "src/coordinator/group/record/classic.rs",
    "src/coordinator/group/record/consumer.rs",
    "src/coordinator/group/record/offset.rs",
    "src/coordinator/group/record/rewind.rs",
    "src/coordinator/group/rewind.rs",
    "src/coordinator/group/soft.rs",
    "src/coordinator/group/topics.rs",
    "src/coordinator/runtime/timers.rs",
    "src/coordinator/shard.rs",
    "src/docgen.rs",
    "src/docgen/clients.rs",
    "src/fetch/planner.rs",
    "src/fetch/replica_selector.rs",
    "src/fetch/session.rs",
    "src/handlers/common/isolation.rs",
    "src/handlers/common/operations.rs",
    "src/handlers/common/produce_checks.rs",
    "src/handlers/common/topic_errors.rs",
    "src/handlers/common/voters.rs",
    "src/iso8601.rs",
    "src/lag/growth.rs",
    "src/lag/ledger.rs",
    "src/lag/partition.rs",
    "src/lag/table.rs",
    "src/lag/window.rs",
    "src/rewind/question.rs",
    "storage/src/codec.rs",
    "storage/src/index/epochs.rs",
    "storage/src/index/rows.rs",
    "storage/src/journal/record.rs",
    "storage/src/producer_state.rs",
    "storage/src/producer_state/codec.rs",
    "storage/src/reclaim/plan.rs",
    "storage/src/retention.rs",
];

/// What pure files may not name, as whole words of code.
const IMPURE: &[&str] = &[
    "async",
    "await",
    "tokio",
    "Instant",
    "SystemTime",
    "rand",
    "thread_rng",
    "Mutex",
    "RwLock",
    "parking_lot",
    "AtomicBool",
    "AtomicU64",
    "AtomicUsize",
    "metrics",
    "spawn",
];

/// The crates of ours that each crate may name.
const ARROWS: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("storage", &["protocol"]),
    ("cluster", &["protocol", "storage"]),
    ("src", &["protocol", "storage", "cluster"]),
];

/// Libraries that only these places may name.
const CONFINED: &[(&str, &[&str])] = &[
    ("openraft", &["cluster/src/raft/"]),
    ("openraft_rt", &["cluster/src/raft/"]),
    ("openraft_rt_tokio", &["cluster/src/raft/"]),
    ("rocksdb", &["storage/src/kv/rocks.rs"]),
    ("axum", &["src/http/"]),
    ("socket2", &["src/net/"]),
    ("tracing_subscriber", &["src/telemetry.rs", "cluster/src/transport/tests/"]),
    ("metrics_exporter_prometheus", &["src/telemetry.rs", "src/http/", "src/broker.rs"]),
];

const LINE_COLUMNS: usize = 100;
const FILE_LINES: usize = 600;
const HANDLER_LINES: usize = 300;
const FUNCTION_LINES: usize = 70;

/// Tables, which may be as long as they are.
const TABLES: &[&str] = &["protocol/src/error_code.rs"];

/// Files and functions over their budget, with what they have: may shrink, not grow.
const RATCHET: &[(&str, usize)] = &[];

#[test]
fn arrows_between_crates_point_one_way() {
    let mut broken = Vec::new();
    for (crate_name, may_name) in ARROWS {
        let manifest = match *crate_name {
            "src" => "Cargo.toml".to_owned(),
            name => format!("{name}/Cargo.toml"),
        };
        let others = ["protocol", "storage", "cluster", "highwater"].into_iter();
        let forbidden: Vec<&str> = others
            .filter(|o| o != crate_name && *o != "highwater" && !may_name.contains(o))
            .collect();
        for dependency in dependencies(&manifest) {
            if forbidden.contains(&dependency.as_str()) {
                broken.push(format!("{manifest} depends on {dependency}"));
            }
        }
        let prefix =
            if *crate_name == "src" { "src/".into() } else { format!("{crate_name}/src/") };
        for source in sources().iter().filter(|source| source.path.starts_with(&prefix)) {
            for name in &forbidden {
                if source.names_crate(name) {
                    broken.push(format!("{} names {name}", source.path));
                }
            }
        }
    }
    assert_none(&broken);
}

/// The names under `[dependencies]` of a manifest.
fn dependencies(manifest: &str) -> Vec<String> {
    let text = std::fs::read_to_string(repository().join(manifest)).expect("a manifest");
    let section = text.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    let name = |line: &str| Some(line.split(['.', ' ', '=']).next()?.trim().to_owned());
    section.lines().filter_map(name).filter(|name| !name.is_empty()).collect()
}

#[test]
fn libraries_are_named_where_they_belong() {
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| source.is_ours()) {
        for (library, places) in CONFINED {
            let allowed = places.iter().any(|place| source.path.starts_with(place));
            if !allowed && source.names_crate(library) {
                broken.push(format!("{} names {library}", source.path));
            }
        }
    }
    assert_none(&broken);
}

#[test]
fn storage_knows_no_kafka_messages() {
    let names = |source: &&Source| {
        source.path.starts_with("storage/src/") && source.code.contains("kafka_protocol::messages")
    };
    let broken: Vec<String> =
        sources().iter().filter(names).map(|source| source.path.clone()).collect();
    assert_none(&broken);
}

#[test]
fn pure_files_are_marked_and_listed() {
    let listed: BTreeSet<&str> = PURE.iter().copied().collect();
    let all = sources();
    let marked = all.iter().filter(|source| source.is_marked_pure());
    let marked: BTreeSet<&str> = marked.map(|source| source.path.as_str()).collect();
    let mut broken = Vec::new();
    broken.extend(listed.difference(&marked).map(|path| format!("{path} lacks its `//! Pure:`")));
    broken.extend(marked.difference(&listed).map(|path| format!("{path} is not listed in PURE")));
    assert_none(&broken);
}

#[test]
fn pure_files_are_pure() {
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| source.is_marked_pure()) {
        for word in IMPURE {
            if source.has_word(word) {
                broken.push(format!("{} has `{word}`", source.path));
            }
        }
    }
    assert_none(&broken);
}

#[test]
fn every_file_opens_with_what_it_owns() {
    let all = sources();
    let without = all.iter().filter(|source| !source.text.starts_with("//! "));
    assert_none(&without.map(|source| source.path.clone()).collect::<Vec<_>>());
}

#[test]
fn nothing_is_longer_than_its_budget() {
    let mut broken = Vec::new();
    let mut over = |what: String, size: usize, budget: usize| {
        let allowed = RATCHET.iter().find(|(name, _)| *name == what).map(|(_, size)| *size);
        if size > allowed.unwrap_or(budget) {
            broken.push(format!("{what}: {size} lines of {}", allowed.unwrap_or(budget)));
        }
    };
    for source in sources() {
        if !TABLES.contains(&source.path.as_str()) {
            let is_handler = source.handler_name().is_some();
            let budget = if is_handler { HANDLER_LINES } else { FILE_LINES };
            over(source.path.clone(), source.text.lines().count(), budget);
        }
        for function in source.functions() {
            over(format!("{}::{}", source.path, function.name), function.lines, FUNCTION_LINES);
        }
    }
    assert_none(&broken);
}

#[test]
fn lines_fit_the_screen() {
    let mut broken = Vec::new();
    for source in sources() {
        for (index, line) in source.text.lines().enumerate() {
            // What cannot be broken: a literal, a link.
            let breakable = line.trim_start().contains(' ') && !line.contains("://");
            if line.chars().count() > LINE_COLUMNS && breakable {
                broken.push(format!("{}:{}", source.path, index + 1));
            }
        }
    }
    assert_none(&broken);
}

#[test]
fn nothing_is_left_to_do_in_the_code() {
    let mut broken = Vec::new();
    for source in sources() {
        for left in ["todo!", "dbg!", "unimplemented!", "#[ignore"] {
            if source.code.contains(left) {
                broken.push(format!("{} has {left}", source.path));
            }
        }
    }
    assert_none(&broken);
}

#[test]
fn every_handler_has_its_row_and_every_row_its_handler() {
    let rows: BTreeSet<String> = TABLE.iter().map(|row| row.file.to_owned()).collect();
    let all = sources();
    let files: BTreeSet<String> =
        all.iter().filter_map(|source| source.handler_name()).map(str::to_owned).collect();
    assert_eq!(rows, files);
    for row in TABLE {
        assert_eq!(row.file, snake_case(&format!("{:?}", row.spec.key)), "named as Kafka does");
    }
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[test]
fn every_gap_is_a_sentence() {
    for row in TABLE {
        for gap in row.spec.gaps {
            assert!(gap.ends_with('.') && gap.len() > 10, "{:?}: {gap}", row.spec.key);
        }
    }
}

#[test]
fn the_root_holds_no_reports() {
    let allowed = ["README.md", "CONTRIBUTING.md"];
    let entries = std::fs::read_dir(repository()).expect("the repository");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_stray = |name: &String| {
        Path::new(name).extension().is_some_and(|extension| extension == "md")
            && !allowed.contains(&name.as_str())
    };
    assert_none(&names.filter(is_stray).collect::<Vec<_>>());
}

fn assert_none(broken: &[String]) {
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}
