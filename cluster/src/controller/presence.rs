//! Brokers tell the controller that they are there and what they lead, and hear from it what the
//! others do: the reports, the questions that wait for news, and the controller's answers.
//!
//! Every broker has one question open at the controller, which answers when its board changes or a
//! heartbeat's time is over. What changes here is reported at once. An idle cluster exchanges one
//! small message for each broker and heartbeat, however many partitions there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use protocol::types::BrokerId;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use super::metadata_log::{METADATA_GROUP, MetadataLog};
use super::view::{Board, LeaderRow, News, View, leadership};
use crate::limits::{PRESENCE_DEBOUNCE, PRESENCE_RETRY_DELAY, PRESENCE_SCAN, PRESENCE_TIMEOUT};
use crate::metadata::PartitionImage;
use crate::raft::Clock;
use crate::replica::Leadership;
use crate::replica::registry::Registry;
use crate::transport::{PeerError, PeerMessage, PeerTransport};

/// The message's kind.
pub(crate) const HEARTBEAT: u8 = 65;

/// A broker is there, leads this, and has seen that much of the board.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Heartbeat {
    broker: BrokerId,
    term: u64,
    seen: u64,
    rows: Vec<LeaderRow>,
    /// How long the answer may wait for news.
    wait_ms: u64,
}

/// How often, and how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PresenceTiming {
    /// `broker.heartbeat.interval.ms`
    pub(crate) heartbeat: Duration,
    /// `broker.session.timeout.ms`
    pub(crate) session_timeout: Duration,
}

/// What this broker knows of the others.
pub(crate) struct Presence {
    broker_id: BrokerId,
    clock: Clock,
    timing: PresenceTiming,
    transport: Arc<dyn PeerTransport>,
    view: Mutex<View>,
    /// Brokers whose process has ended, as this one has seen itself.
    ended: Mutex<BTreeSet<BrokerId>>,
    /// While this broker is the controller.
    board: Mutex<Option<Board>>,
    /// Version of the board, for the questions that wait.
    news: watch::Sender<u64>,
    /// Counts what this broker has learned.
    learned: watch::Sender<u64>,
    /// Leadership of a replica here has changed.
    leadership_changed: Notify,
}

impl Presence {
    pub(crate) fn new(
        broker_id: BrokerId,
        timing: PresenceTiming,
        transport: Arc<dyn PeerTransport>,
    ) -> Presence {
        Presence {
            broker_id,
            clock: Clock::start(),
            timing,
            transport,
            view: Mutex::default(),
            ended: Mutex::default(),
            board: Mutex::default(),
            news: watch::Sender::new(0),
            learned: watch::Sender::new(0),
            leadership_changed: Notify::new(),
        }
    }

    /// Milliseconds since this broker started.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.elapsed_ms()
    }

    /// Whether a broker is there, as far as is known.
    pub(crate) fn is_alive(&self, broker: BrokerId) -> bool {
        broker == self.broker_id
            || (self.view.lock().is_alive(broker) && !self.ended.lock().contains(&broker))
    }

    /// Who leads a partition: what the replica here says and what the leader has reported.
    pub(crate) fn leadership(
        &self,
        partition: &PartitionImage,
        local: Option<Leadership>,
    ) -> Leadership {
        let view = self.view.lock();
        let ended = self.ended.lock();
        let own = self.broker_id;
        let is_alive = |id| id == own || (view.is_alive(id) && !ended.contains(&id));
        leadership(partition, own, local, view.row(partition.group), is_alive)
    }

    /// Those that were in sync with a partition's leader when it was heard of last.
    pub(crate) fn in_sync_before(&self, group: u64) -> Option<Vec<BrokerId>> {
        self.view.lock().row(group).map(|row| row.in_sync_replicas.clone())
    }

    /// Changes whenever this broker learns something.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.learned.subscribe()
    }

    /// Waits until the controller has heard of this broker: from then on it is given partitions.
    /// Answers with the version of the controller's metadata then.
    pub(crate) async fn wait_until_heard(&self) -> u64 {
        let mut learned = self.learned.subscribe();
        loop {
            {
                let view = self.view.lock();
                if view.is_told_alive(self.broker_id) {
                    return view.image_version();
                }
            }
            if learned.changed().await.is_err() {
                return 0;
            }
        }
    }

    /// Leadership of a replica here has changed: it is reported soon.
    pub(crate) fn on_leadership_changed(&self) {
        self.leadership_changed.notify_one();
    }

    /// A broker's process has ended.
    pub(crate) fn on_ended(&self, broker: BrokerId) {
        self.view.lock().on_ended(broker);
        if self.ended.lock().insert(broker) {
            self.learned.send_modify(|count| *count += 1);
        }
        self.with_board(|board| board.on_ended(broker));
    }

    /// Partitions that are gone are forgotten.
    pub(crate) fn forget(&self, groups: &[u64]) {
        self.view.lock().forget(groups);
        self.with_board(|board| board.forget(groups));
    }

    fn with_board(&self, change: impl FnOnce(&mut Board)) {
        let version = {
            let mut board = self.board.lock();
            let Some(board) = board.as_mut() else { return };
            change(board);
            board.version()
        };
        self.tell(version);
    }

    fn tell(&self, version: u64) {
        self.news.send_if_modified(|told| std::mem::replace(told, version) != version);
    }

    fn absorb(&self, news: News) {
        let changed = {
            let mut view = self.view.lock();
            let mut changed = view.learn_alive(news.alive, news.image_version);
            for row in news.rows {
                changed |= view.learn(row);
            }
            changed
        };
        if changed {
            self.learned.send_modify(|count| *count += 1);
        }
    }

    /// Answers a broker's heartbeat; refused where this is not the controller.
    pub(crate) async fn answer(
        &self,
        log: &MetadataLog,
        message: &PeerMessage,
    ) -> Result<PeerMessage, PeerError> {
        let heartbeat: Heartbeat = serde_json::from_slice(&message.head).map_err(broken)?;
        let news = self.hear(log, heartbeat).await;
        let news = news.ok_or_else(|| PeerError::Unreachable("not the controller".into()))?;
        let head = serde_json::to_vec(&news).map_err(broken)?;
        Ok(PeerMessage { kind: HEARTBEAT, head: head.into(), body: Vec::new() })
    }

    async fn hear(&self, log: &MetadataLog, heartbeat: Heartbeat) -> Option<News> {
        let Heartbeat { broker, term, seen, rows, wait_ms } = heartbeat;
        let mut news = self.news.subscribe();
        let version = self.at_board(log, |board| {
            board.on_heard(broker, self.now_ms());
            rows.into_iter().for_each(|row| board.on_report(row));
            board.version()
        })?;
        self.tell(version);
        let is_news = |board: &Board| board.term() != term || board.version() > seen;
        if wait_ms > 0 && !self.at_board(log, |board| is_news(board))? {
            let changed = news.wait_for(|version| *version > seen);
            // Nothing new in time is an answer, too.
            tokio::time::timeout(Duration::from_millis(wait_ms), changed).await.ok();
        }
        let image_version = log.image().version;
        self.at_board(log, |board| board.news_since(term, seen, image_version))
    }

    /// The board of the term in which this broker is the controller.
    fn at_board<T>(&self, log: &MetadataLog, look: impl FnOnce(&mut Board) -> T) -> Option<T> {
        let (leader, epoch) = log.leader();
        let term = u64::try_from(epoch.0).unwrap_or_default();
        let mut board = self.board.lock();
        if leader != Some(self.broker_id) {
            *board = None;
            return None;
        }
        if board.as_ref().is_none_or(|board| board.term() != term) {
            let ended = self.ended.lock().clone();
            let image = log.image();
            let brokers = image.brokers.keys().copied().filter(|id| !ended.contains(id));
            *board = Some(Board::new(term, &self.view.lock(), brokers, self.now_ms()));
        }
        board.as_mut().map(look)
    }

    async fn send(&self, log: &MetadataLog, heartbeat: Heartbeat) -> Option<News> {
        let controller = log.leader().0?;
        if controller == self.broker_id {
            return self.hear(log, heartbeat).await;
        }
        let timeout = PRESENCE_TIMEOUT + Duration::from_millis(heartbeat.wait_ms);
        let head = serde_json::to_vec(&heartbeat).ok()?;
        let message = PeerMessage { kind: HEARTBEAT, head: head.into(), body: Vec::new() };
        let answer = self.transport.call(controller, METADATA_GROUP, message, timeout).await;
        serde_json::from_slice(&answer.ok()?.head).ok()
    }

    /// Asks for news, one question after the other.
    pub(crate) async fn run_questions(&self, log: &MetadataLog) {
        let (mut term, mut seen) = (0, 0);
        let wait_ms = u64::try_from(self.timing.heartbeat.as_millis()).unwrap_or(u64::MAX);
        loop {
            let broker = self.broker_id;
            let question = Heartbeat { broker, term, seen, rows: Vec::new(), wait_ms };
            match self.send(log, question).await {
                Some(news) => {
                    (term, seen) = (news.term, news.version);
                    self.absorb(news);
                }
                None => tokio::time::sleep(PRESENCE_RETRY_DELAY).await,
            }
        }
    }

    /// Reports what this broker leads, whenever that changes.
    pub(crate) async fn run_reports(&self, log: &MetadataLog, registry: &Registry) {
        let mut reported: BTreeMap<u64, LeaderRow> = BTreeMap::new();
        let mut reported_term = 0;
        loop {
            let changed = self.leadership_changed.notified();
            if tokio::time::timeout(PRESENCE_SCAN, changed).await.is_ok() {
                // Elections come in flocks.
                tokio::time::sleep(PRESENCE_DEBOUNCE).await;
            }
            self.look_after_brokers(log).await;
            let led = registry.led();
            let is_new = |row: &&LeaderRow| reported.get(&row.group) != Some(*row);
            let is_first = log.leader().1.0 != reported_term;
            let rows: Vec<_> = led.iter().filter(|row| is_first || is_new(row)).cloned().collect();
            if rows.is_empty() {
                continue;
            }
            let mut learned = false;
            rows.iter().for_each(|row| learned |= self.view.lock().learn(row.clone()));
            if learned {
                self.learned.send_modify(|count| *count += 1);
            }
            // What others report comes with the questions.
            let term = u64::try_from(reported_term).unwrap_or_default();
            let report =
                Heartbeat { broker: self.broker_id, term, seen: u64::MAX, rows, wait_ms: 0 };
            if let Some(news) = self.send(log, report).await {
                reported = led.into_iter().map(|row| (row.group, row)).collect();
                reported_term = i32::try_from(news.term).unwrap_or(i32::MAX);
                self.absorb(news);
            }
        }
    }

    /// Sees whether brokers whose process had ended are back, and, at the controller, who has been
    /// silent for too long.
    async fn look_after_brokers(&self, log: &MetadataLog) {
        let ended = self.ended.lock().clone();
        for broker in ended {
            if !self.transport.has_ended(broker).await {
                self.ended.lock().remove(&broker);
                self.learned.send_modify(|count| *count += 1);
            }
        }
        let timeout_ms = u64::try_from(self.timing.session_timeout.as_millis()).unwrap_or(u64::MAX);
        let version = self.at_board(log, |board| {
            board.expire(self.now_ms(), timeout_ms);
            board.version()
        });
        if let Some(version) = version {
            self.tell(version);
        }
    }
}

fn broken(error: serde_json::Error) -> PeerError {
    PeerError::Broken(error.to_string())
}
