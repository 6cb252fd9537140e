//! A classic group with members: who they are, who leads, who is waited for (Kafka:
//! `ClassicGroup`). It is soft: its last generation is in the log, a rebalance under way is not.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use protocol::consumer_protocol::Subscription;
use protocol::error_code::ErrorCode;
use protocol::types::Timestamp;

use crate::coordinator::group::event::{
    Client, GroupId, GroupState, JoinProtocol, JoinedMember, MemberId,
};
use crate::coordinator::group::record::{ClassicMetadata, ClassicMetadataMember};
use crate::coordinator::shard::RequestToken;

/// The protocol type whose bytes the coordinator may read.
pub(crate) const CONSUMER_PROTOCOL_TYPE: &str = "consumer";

/// A member of a classic group.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub group_instance_id: Option<String>,
    pub client: Client,
    pub rebalance_timeout_ms: i32,
    pub session_timeout_ms: i32,
    pub protocols: Vec<JoinProtocol>,
    pub assignment: Bytes,
    /// Its first JoinGroup waits: it has no id to send heartbeats with.
    pub is_new: bool,
    pub awaiting_sync: Option<RequestToken>,
    awaiting_join: Option<RequestToken>,
}

/// The waits that an initial rebalance still has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InitialDelay {
    pub delay_ms: i32,
    pub remaining_ms: i32,
}

/// A classic group.
#[derive(Debug)]
pub(crate) struct ClassicGroup {
    pub group_id: GroupId,
    pub generation_id: i32,
    pub protocol_type: Option<String>,
    pub protocol_name: Option<String>,
    /// Members that have not asked for their assignment in this generation.
    pub pending_sync: BTreeSet<MemberId>,
    /// Someone came while the initial rebalance waited: it may wait longer.
    pub new_member_added: bool,
    pub initial_delay: Option<InitialDelay>,
    /// Of the last generation; `None` where they cannot be told.
    pub subscribed_topics: Option<BTreeSet<String>>,
    state: GroupState,
    previous_state: GroupState,
    state_since: Option<Timestamp>,
    leader: Option<MemberId>,
    members: BTreeMap<MemberId, Member>,
    static_members: BTreeMap<String, MemberId>,
    /// Members that were given an id and are to join with it (KIP-394).
    pending_join: BTreeSet<MemberId>,
    awaiting_join_count: usize,
    /// How many members offer each protocol.
    supported_protocols: BTreeMap<String, usize>,
}

impl Member {
    pub(crate) fn new(
        group_instance_id: Option<String>,
        client: Client,
        timeouts_ms: (i32, i32),
        protocols: &[JoinProtocol],
    ) -> Member {
        let (rebalance_timeout_ms, session_timeout_ms) = timeouts_ms;
        Member {
            group_instance_id,
            client,
            rebalance_timeout_ms,
            session_timeout_ms,
            protocols: own_protocols(protocols),
            assignment: Bytes::new(),
            is_new: false,
            awaiting_sync: None,
            awaiting_join: None,
        }
    }

    /// Its JoinGroup that waits.
    pub(crate) fn awaiting_join(&self) -> Option<RequestToken> {
        self.awaiting_join
    }

    pub(crate) fn is_awaiting_join(&self) -> bool {
        self.awaiting_join.is_some()
    }

    /// Whether the member needs to send no heartbeat: it waits for an answer of ours.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.is_new && (self.awaiting_join.is_some() || self.awaiting_sync.is_some())
    }

    pub(crate) fn metadata(&self, protocol_name: Option<&str>) -> Bytes {
        let protocol = self.protocols.iter().find(|p| Some(p.name.as_str()) == protocol_name);
        protocol.map(|protocol| protocol.metadata.clone()).unwrap_or_default()
    }
}

/// The protocols in memory of their own: a slice of a request would keep all of it.
fn own_protocols(protocols: &[JoinProtocol]) -> Vec<JoinProtocol> {
    let own = |protocol: &JoinProtocol| JoinProtocol {
        name: protocol.name.clone(),
        metadata: Bytes::copy_from_slice(&protocol.metadata),
    };
    protocols.iter().map(own).collect()
}

impl ClassicGroup {
    /// An empty group that nobody has joined yet.
    pub(crate) fn new(group_id: GroupId, now: Timestamp) -> ClassicGroup {
        ClassicGroup {
            group_id,
            generation_id: 0,
            protocol_type: None,
            protocol_name: None,
            pending_sync: BTreeSet::new(),
            new_member_added: false,
            initial_delay: None,
            subscribed_topics: None,
            state: GroupState::Empty,
            previous_state: GroupState::Dead,
            state_since: Some(now),
            leader: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending_join: BTreeSet::new(),
            awaiting_join_count: 0,
            supported_protocols: BTreeMap::new(),
        }
    }

    /// An empty group that only holds offsets.
    pub(crate) fn simple(group_id: GroupId) -> ClassicGroup {
        ClassicGroup { state_since: None, ..ClassicGroup::new(group_id, Timestamp::UNKNOWN) }
    }

    /// The group as its last generation left it in the log.
    pub(crate) fn load(group_id: GroupId, metadata: &ClassicMetadata) -> ClassicGroup {
        let mut group = ClassicGroup::new(group_id, Timestamp::UNKNOWN);
        group.generation_id = metadata.generation_id;
        let protocol_type = Some(metadata.protocol_type.clone());
        group.protocol_type = protocol_type.filter(|protocol_type| !protocol_type.is_empty());
        group.protocol_name = metadata.protocol_name.clone();
        group.state_since = metadata.state_timestamp;
        for loaded in &metadata.members {
            let name = metadata.protocol_name.clone().unwrap_or_default();
            let protocols = [JoinProtocol { name, metadata: loaded.subscription.clone() }];
            let timeouts_ms = (loaded.rebalance_timeout_ms, loaded.session_timeout_ms);
            let instance_id = loaded.group_instance_id.clone();
            let mut member =
                Member::new(instance_id, loaded.client.clone(), timeouts_ms, &protocols);
            member.assignment = loaded.assignment.clone();
            group.add(loaded.member_id.clone(), member, None);
        }
        let is_member = |id: &&MemberId| group.members.contains_key(*id);
        if let Some(leader) = metadata.leader.as_ref().filter(is_member) {
            group.leader = Some(leader.clone());
        }
        if !group.members.is_empty() {
            group.state = GroupState::Stable;
        }
        group.subscribed_topics = group.compute_subscribed_topics();
        group
    }

    /// A stable group of consumers that was a KIP-848 group before.
    pub(crate) fn of_consumers(
        group_id: GroupId,
        generation_id: i32,
        members: Vec<(MemberId, Member)>,
        now: Timestamp,
    ) -> ClassicGroup {
        let mut group = ClassicGroup::new(group_id, now);
        group.generation_id = generation_id;
        group.protocol_type = Some(CONSUMER_PROTOCOL_TYPE.to_owned());
        for (member_id, member) in members {
            group.add(member_id, member, None);
        }
        group.protocol_name = group.select_protocol();
        group.state = GroupState::Stable;
        group.subscribed_topics = group.compute_subscribed_topics();
        group
    }

    pub(crate) fn state(&self) -> GroupState {
        self.state
    }

    pub(crate) fn is_in(&self, state: GroupState) -> bool {
        self.state == state
    }

    /// Whether the rebalance under way is the first after the group was empty.
    pub(crate) fn is_in_initial_rebalance(&self) -> bool {
        self.state == GroupState::PreparingRebalance && self.previous_state == GroupState::Empty
    }

    pub(crate) fn can_rebalance(&self) -> bool {
        use GroupState::{CompletingRebalance, Empty, Stable};
        matches!(self.state, Stable | CompletingRebalance | Empty)
    }

    pub(crate) fn transition_to(&mut self, state: GroupState, now: Timestamp) {
        self.previous_state = self.state;
        self.state = state;
        self.state_since = Some(now);
    }

    /// Since when it is in its state; `None` where the log does not say.
    pub(crate) fn state_since(&self) -> Option<Timestamp> {
        self.state_since
    }

    pub(crate) fn leader(&self) -> Option<&MemberId> {
        self.leader.as_ref()
    }

    pub(crate) fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    pub(crate) fn members(&self) -> &BTreeMap<MemberId, Member> {
        &self.members
    }

    pub(crate) fn member(&self, member_id: &str) -> Option<&Member> {
        self.members.get(member_id)
    }

    /// Changes whatever of a member the group keeps no count of.
    pub(crate) fn member_mut(&mut self, member_id: &str) -> Option<&mut Member> {
        self.members.get_mut(member_id)
    }

    pub(crate) fn members_mut(&mut self) -> impl Iterator<Item = (&MemberId, &mut Member)> {
        self.members.iter_mut()
    }

    pub(crate) fn static_member_id(&self, group_instance_id: &str) -> Option<&MemberId> {
        self.static_members.get(group_instance_id)
    }

    pub(crate) fn pending_join(&self) -> &BTreeSet<MemberId> {
        &self.pending_join
    }

    pub(crate) fn add_pending_join(&mut self, member_id: MemberId) {
        self.pending_join.insert(member_id);
    }

    pub(crate) fn awaiting_join_count(&self) -> usize {
        self.awaiting_join_count
    }

    pub(crate) fn has_all_members_joined(&self) -> bool {
        self.members.len() == self.awaiting_join_count && self.pending_join.is_empty()
    }

    /// Whether the group may be forgotten: what the log says of it is all there is.
    pub(crate) fn is_unloadable(&self) -> bool {
        self.state == GroupState::Empty && self.pending_join.is_empty()
    }

    /// The longest that any member may take to rejoin.
    pub(crate) fn rebalance_timeout_ms(&self) -> i32 {
        self.members.values().map(|member| member.rebalance_timeout_ms).max().unwrap_or(0)
    }

    pub(crate) fn add(
        &mut self,
        member_id: MemberId,
        mut member: Member,
        awaiting_join: Option<RequestToken>,
    ) {
        if let Some(instance_id) = &member.group_instance_id {
            self.static_members.insert(instance_id.clone(), member_id.clone());
        }
        self.leader.get_or_insert_with(|| member_id.clone());
        self.pending_join.remove(&member_id);
        member.awaiting_join = awaiting_join;
        self.awaiting_join_count += usize::from(awaiting_join.is_some());
        count_protocols(&mut self.supported_protocols, &member.protocols, 1);
        self.members.insert(member_id, member);
    }

    /// Removes a member or one about to join; another member may have to lead.
    pub(crate) fn remove(&mut self, member_id: &str) -> Option<Member> {
        let removed = self.members.remove(member_id);
        if let Some(member) = &removed {
            count_protocols(&mut self.supported_protocols, &member.protocols, -1);
            self.awaiting_join_count -= usize::from(member.awaiting_join.is_some());
            if let Some(instance_id) = &member.group_instance_id {
                self.static_members.remove(instance_id);
            }
        }
        if self.is_leader(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
        self.pending_join.remove(member_id);
        self.pending_sync.remove(member_id);
        removed
    }

    /// Gives a returning static member its new id, and everything else of the old one. Returns the
    /// requests of the old one that wait: (JoinGroup, SyncGroup).
    pub(crate) fn replace_static_member(
        &mut self,
        old_id: &str,
        new_id: MemberId,
    ) -> (Option<RequestToken>, Option<RequestToken>) {
        let Some(mut member) = self.members.remove(old_id) else { return (None, None) };
        let waiting = (member.awaiting_join.take(), member.awaiting_sync.take());
        self.awaiting_join_count -= usize::from(waiting.0.is_some());
        if let Some(instance_id) = &member.group_instance_id {
            self.static_members.insert(instance_id.clone(), new_id.clone());
        }
        if self.is_leader(old_id) {
            self.leader = Some(new_id.clone());
        }
        if self.pending_sync.remove(old_id) {
            self.pending_sync.insert(new_id.clone());
        }
        member.is_new = false;
        self.members.insert(new_id, member);
        waiting
    }

    /// What a member says of itself as it joins again. Returns its JoinGroup that waited before.
    pub(crate) fn update_member(
        &mut self,
        member_id: &str,
        protocols: &[JoinProtocol],
        timeouts_ms: (i32, i32),
        awaiting_join: RequestToken,
    ) -> Option<RequestToken> {
        let member = self.members.get_mut(member_id)?;
        count_protocols(&mut self.supported_protocols, &member.protocols, -1);
        member.protocols = own_protocols(protocols);
        count_protocols(&mut self.supported_protocols, &member.protocols, 1);
        (member.rebalance_timeout_ms, member.session_timeout_ms) = timeouts_ms;
        let before = member.awaiting_join.replace(awaiting_join);
        self.awaiting_join_count += usize::from(before.is_none());
        before
    }

    /// The member's JoinGroup that waits, to be answered now.
    pub(crate) fn take_awaiting_join(&mut self, member_id: &str) -> Option<RequestToken> {
        let token = self.members.get_mut(member_id)?.awaiting_join.take()?;
        self.awaiting_join_count -= 1;
        Some(token)
    }

    /// Dynamic members that have not rejoined.
    pub(crate) fn absent_dynamic_members(&self) -> Vec<MemberId> {
        let members = self.members.iter();
        let absent =
            members.filter(|(_, m)| !m.is_awaiting_join() && m.group_instance_id.is_none());
        absent.map(|(id, _)| id.clone()).collect()
    }

    /// Whether there is a leader that has joined, after electing one if need be.
    pub(crate) fn elect_joined_leader(&mut self) -> bool {
        let Some(leader) = self.leader.as_deref().and_then(|id| self.members.get(id)) else {
            return false;
        };
        if leader.is_awaiting_join() {
            return true;
        }
        match self.members.iter().find(|(_, member)| member.is_awaiting_join()) {
            Some((id, _)) => {
                self.leader = Some(id.clone());
                true
            }
            None => false,
        }
    }

    pub(crate) fn init_next_generation(&mut self, now: Timestamp) {
        self.generation_id += 1;
        self.protocol_name = self.select_protocol();
        self.subscribed_topics = self.compute_subscribed_topics();
        let next = match self.members.is_empty() {
            true => GroupState::Empty,
            false => GroupState::CompletingRebalance,
        };
        self.transition_to(next, now);
        self.pending_sync.clear();
    }

    /// Whether one with these protocols can be a member.
    pub(crate) fn supports_protocols(
        &self,
        protocol_type: &str,
        protocols: &[JoinProtocol],
    ) -> bool {
        if self.state == GroupState::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        // Whoever all have left during the rebalance, the first to come again decides anew.
        if self.members.is_empty() {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        let is_common = |protocol: &JoinProtocol| {
            self.supported_protocols.get(&protocol.name) == Some(&self.members.len())
        };
        self.protocol_type.as_deref() == Some(protocol_type) && protocols.iter().any(is_common)
    }

    /// The protocol, common to all, that most members prefer; among equals, the one that the
    /// leader prefers.
    pub(crate) fn select_protocol(&self) -> Option<String> {
        let is_candidate =
            |name: &str| self.supported_protocols.get(name) == Some(&self.members.len());
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            let names = member.protocols.iter().map(|protocol| protocol.name.as_str());
            if let Some(vote) = names.into_iter().find(|name| is_candidate(name)) {
                *votes.entry(vote).or_default() += 1;
            }
        }
        let most = *votes.values().max()?;
        let leader = self.leader.as_deref().and_then(|id| self.members.get(id));
        let preferred = leader.into_iter().flat_map(|leader| &leader.protocols);
        let mut names =
            preferred.map(|protocol| protocol.name.as_str()).chain(votes.keys().copied());
        names.find(|name| votes.get(name) == Some(&most)).map(str::to_owned)
    }

    /// Kafka's `validateMember`: known, and not replaced by another of its static name.
    pub(crate) fn validate_member(
        &self,
        member_id: &str,
        group_instance_id: Option<&str>,
    ) -> Result<(), ErrorCode> {
        if let Some(instance_id) = group_instance_id {
            match self.static_members.get(instance_id) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(existing) if **existing != *member_id => {
                    return Err(ErrorCode::FencedInstanceId);
                }
                Some(_) => {}
            }
        }
        match self.members.contains_key(member_id) {
            true => Ok(()),
            false => Err(ErrorCode::UnknownMemberId),
        }
    }

    /// Whether members consume the topic; where that cannot be told, they do.
    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        match &self.subscribed_topics {
            Some(topics) => topics.contains(topic),
            None => self.uses_consumer_protocol(),
        }
    }

    pub(crate) fn uses_consumer_protocol(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER_PROTOCOL_TYPE)
    }

    /// What all members want, where their metadata is Kafka's consumer protocol.
    fn compute_subscribed_topics(&self) -> Option<BTreeSet<String>> {
        if !self.uses_consumer_protocol() {
            return None;
        }
        if self.members.is_empty() {
            return Some(BTreeSet::new());
        }
        let protocol_name = self.protocol_name.as_deref()?;
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            let subscription = Subscription::decode(&member.metadata(Some(protocol_name))).ok()?;
            topics.extend(subscription.topics);
        }
        Some(topics)
    }

    /// Everyone, as the leader gets to know them.
    pub(crate) fn joined_members(&self) -> Vec<JoinedMember> {
        let name = self.protocol_name.as_deref();
        let joined = self.members.iter().map(|(member_id, member)| JoinedMember {
            member_id: member_id.clone(),
            group_instance_id: member.group_instance_id.clone(),
            metadata: member.metadata(name),
        });
        joined.collect()
    }

    /// The group for the log.
    pub(crate) fn to_metadata(&self) -> ClassicMetadata {
        let name = self.protocol_name.as_deref();
        let members = self.members.iter().map(|(member_id, member)| ClassicMetadataMember {
            member_id: member_id.clone(),
            group_instance_id: member.group_instance_id.clone(),
            client: member.client.clone(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            subscription: member.metadata(name),
            assignment: member.assignment.clone(),
        });
        ClassicMetadata {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation_id: self.generation_id,
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.clone(),
            state_timestamp: self.state_since,
            members: members.collect(),
        }
    }
}

fn count_protocols(
    counts: &mut BTreeMap<String, usize>,
    protocols: &[JoinProtocol],
    change: isize,
) {
    let names: BTreeSet<&str> = protocols.iter().map(|protocol| protocol.name.as_str()).collect();
    for name in names {
        let count = counts.entry(name.to_owned()).or_default();
        *count = count.saturating_add_signed(change);
        if *count == 0 {
            counts.remove(name);
        }
    }
}
