//! raft-rs's messages and what it knows of them, in the place of the crate of that name (`[patch.crates-io]`).
//!
//! That one generates them by rust-protobuf 2 (RUSTSEC-2024-0437), or by a prost of 2022 that copies every payload, and needs `protoc`
//! for either. They are few, and raft-rs 0.7 is the last release: so they are written down, and prost reads and writes them.

pub mod eraftpb;

use std::borrow::Cow;

use eraftpb::{ConfChange, ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState};

pub mod prelude {
    pub use crate::eraftpb::{
        ConfChange, ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState, Entry, EntryType,
        HardState, Message, MessageType, Snapshot, SnapshotMetadata,
    };
}

pub fn new_conf_change_single(node_id: u64, kind: ConfChangeType) -> ConfChangeSingle {
    ConfChangeSingle { node_id, change_type: kind as i32 }
}

/// A change of members in either form.
pub trait ConfChangeI {
    fn into_v2(self) -> ConfChangeV2;
    fn as_v2(&self) -> Cow<'_, ConfChangeV2>;
    fn as_v1(&self) -> Option<&ConfChange>;
}

impl ConfChangeI for ConfChange {
    fn into_v2(self) -> ConfChangeV2 {
        let changes = vec![new_conf_change_single(self.node_id, self.get_change_type())];
        ConfChangeV2 { changes, context: self.context, ..Default::default() }
    }

    fn as_v2(&self) -> Cow<'_, ConfChangeV2> {
        Cow::Owned(self.clone().into_v2())
    }

    fn as_v1(&self) -> Option<&ConfChange> {
        Some(self)
    }
}

impl ConfChangeI for ConfChangeV2 {
    fn into_v2(self) -> ConfChangeV2 {
        self
    }

    fn as_v2(&self) -> Cow<'_, ConfChangeV2> {
        Cow::Borrowed(self)
    }

    fn as_v1(&self) -> Option<&ConfChange> {
        None
    }
}

impl ConfChangeV2 {
    /// Whether the change goes by joint consensus, and then, whether the leader leaves it by itself.
    pub fn enter_joint(&self) -> Option<bool> {
        match self.get_transition() {
            ConfChangeTransition::Explicit => Some(false),
            ConfChangeTransition::Implicit => Some(true),
            ConfChangeTransition::Auto => (self.changes.len() > 1).then_some(true),
        }
    }

    /// A change of nothing leaves the joint state.
    pub fn leave_joint(&self) -> bool {
        self.get_transition() == ConfChangeTransition::Auto && self.changes.is_empty()
    }
}

impl<Voters: IntoIterator<Item = u64>, Learners: IntoIterator<Item = u64>> From<(Voters, Learners)> for ConfState {
    fn from((voters, learners): (Voters, Learners)) -> Self {
        let (voters, learners) = (voters.into_iter().collect(), learners.into_iter().collect());
        Self { voters, learners, ..Default::default() }
    }
}

/// Whether both have the same members, in whatever order.
#[must_use]
pub fn conf_state_eq(left: &ConfState, right: &ConfState) -> bool {
    let same = |left: &[u64], right: &[u64]| {
        left == right || (left.iter().all(|id| right.contains(id)) && right.iter().all(|id| left.contains(id)))
    };
    same(&left.voters, &right.voters)
        && same(&left.learners, &right.learners)
        && same(&left.voters_outgoing, &right.voters_outgoing)
        && same(&left.learners_next, &right.learners_next)
        && left.auto_leave == right.auto_leave
}
