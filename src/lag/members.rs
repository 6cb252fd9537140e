//! Who owns which partition, asked of the group coordinator.

use std::collections::BTreeMap;

use protocol::consumer_protocol::Assignment;
use protocol::error_code::ErrorCode;

use super::Known;
use crate::context::Services;
use crate::coordinator::group::event::{
    DescribeGroup, DescribedConsumerGroup, DescribedGroup, GroupReply, GroupRequest, GroupState,
    ListGroups, ListedGroup,
};
use crate::coordinator::runtime::CoordinatorError;

const NO_GROUP: &str = "the group does not exist";

/// Groups by name.
pub type ListedGroups = BTreeMap<String, ListedGroup>;

/// A group's members, by what they own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMembers {
    /// The member of each topic and partition.
    pub owners: BTreeMap<(String, i32), String>,
    /// Why a partition that is not there has no owner.
    pub no_owner: &'static str,
}

/// Every group that this broker coordinates.
pub async fn list(services: &Services) -> ListedGroups {
    let answers = services.groups.call_all(&GroupRequest::ListGroups(ListGroups::default())).await;
    let mut listed = ListedGroups::new();
    for answer in answers {
        if let Ok(GroupReply::ListGroups(groups)) = answer {
            listed.extend(groups.into_iter().map(|group| (group.group_id.to_string(), group)));
        }
    }
    listed
}

/// The members of a group, of either protocol.
pub async fn describe(services: &Services, group: &str) -> Known<GroupMembers> {
    // Without the topic there is no group, and nobody who could say so.
    if services.groups.partition_for(group).is_none() {
        return Err(NO_GROUP);
    }
    let asked = DescribeGroup { group_id: group.into(), reports_unknown_group: true };
    let classic = services.groups.call(group, GroupRequest::DescribeGroup(asked)).await;
    match classic.map_err(unavailable)? {
        GroupReply::DescribeGroup(found) if found.error == ErrorCode::None => {
            return Ok(of_classic(&found));
        }
        _ => {}
    }
    let asked = GroupRequest::ConsumerGroupDescribe(group.into());
    match services.groups.call(group, asked).await.map_err(unavailable)? {
        GroupReply::ConsumerGroupDescribe(found) if found.error == ErrorCode::None => {
            Ok(of_consumer(&found))
        }
        _ => Err(NO_GROUP),
    }
}

fn unavailable(error: CoordinatorError) -> &'static str {
    match error {
        CoordinatorError::NotCoordinator => "this broker is not the group's coordinator",
        CoordinatorError::Loading => "the group's coordinator is loading",
        CoordinatorError::Busy => "the group's coordinator is busy",
        CoordinatorError::Unavailable => "the group's coordinator is not available",
    }
}

fn of_classic(group: &DescribedGroup) -> GroupMembers {
    let mut owners = BTreeMap::new();
    for member in &group.members {
        // Connect and others assign something else than partitions.
        let Ok(assignment) = Assignment::decode(&member.assignment) else { continue };
        for topic in assignment.assigned_partitions {
            for partition in topic.partitions {
                owners.insert((topic.topic.clone(), partition), member.member_id.to_string());
            }
        }
    }
    GroupMembers { owners, no_owner: no_owner(group.state, group.members.is_empty()) }
}

fn of_consumer(group: &DescribedConsumerGroup) -> GroupMembers {
    let mut owners = BTreeMap::new();
    for member in &group.members {
        for topic in &member.assignment {
            for partition in &topic.partitions {
                let place = (topic.topic.clone(), partition.0);
                owners.insert(place, member.member_id.to_string());
            }
        }
    }
    GroupMembers { owners, no_owner: no_owner(group.state, group.members.is_empty()) }
}

fn no_owner(state: GroupState, is_empty: bool) -> &'static str {
    match state {
        _ if is_empty => "the group has no members",
        GroupState::PreparingRebalance
        | GroupState::CompletingRebalance
        | GroupState::Assigning
        | GroupState::Reconciling => "the group is rebalancing",
        GroupState::Empty | GroupState::Stable | GroupState::Dead => "no member owns the partition",
    }
}
