//! The messages of raft-rs's `eraftpb.proto`, as it and kompat use them. Bytes are `Bytes`: payloads are never copied.

use bytes::Bytes;
use prost::{Enumeration, Message as Prost};

/// Accessors by the names that rust-protobuf gives them, for raft-rs calls those.
macro_rules! accessors {
    ($message:ty: $($kind:ident $field:ident $get:ident $set:ident $type:ty $(, $extra:ident)*;)*) => {
        impl $message { $(accessors!(@$kind $field $get $set $type $(, $extra)*);)* }
    };
    (@value $field:ident $get:ident $set:ident $type:ty) => {
        pub fn $get(&self) -> $type { self.$field }
        pub fn $set(&mut self, value: $type) { self.$field = value; }
    };
    (@enumerated $field:ident $get:ident $set:ident $type:ty) => {
        pub fn $get(&self) -> $type { self.$field() }
        // prost has the setter
    };
    (@owned $field:ident $get:ident $set:ident $type:ty, $mutable:ident, $take:ident) => {
        pub fn $get(&self) -> &$type { &self.$field }
        pub fn $set(&mut self, value: $type) { self.$field = value; }
        pub fn $mutable(&mut self) -> &mut $type { &mut self.$field }
        pub fn $take(&mut self) -> $type { std::mem::take(&mut self.$field) }
    };
    (@nested $field:ident $get:ident $set:ident $type:ty, $mutable:ident, $take:ident) => {
        pub fn $get(&self) -> &$type {
            static MISSING: std::sync::LazyLock<$type> = std::sync::LazyLock::new(Default::default);
            self.$field.as_ref().unwrap_or_else(|| &MISSING)
        }
        pub fn $set(&mut self, value: $type) { self.$field = Some(value); }
        pub fn $mutable(&mut self) -> &mut $type { self.$field.get_or_insert_default() }
        pub fn $take(&mut self) -> $type { self.$field.take().unwrap_or_default() }
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum EntryType {
    EntryNormal = 0,
    EntryConfChange = 1,
    EntryConfChangeV2 = 2,
}

#[derive(Clone, PartialEq, Prost)]
pub struct Entry {
    #[prost(enumeration = "EntryType", tag = "1")]
    pub entry_type: i32,
    #[prost(uint64, tag = "2")]
    pub term: u64,
    #[prost(uint64, tag = "3")]
    pub index: u64,
    #[prost(bytes = "bytes", tag = "4")]
    pub data: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    pub context: Bytes,
}

accessors! { Entry:
    enumerated entry_type get_entry_type set_entry_type EntryType;
    value term get_term set_term u64;
    value index get_index set_index u64;
    owned data get_data set_data Bytes, mut_data, take_data;
    owned context get_context set_context Bytes, mut_context, take_context;
}

#[derive(Clone, PartialEq, Prost)]
pub struct SnapshotMetadata {
    #[prost(message, optional, tag = "1")]
    pub conf_state: Option<ConfState>,
    #[prost(uint64, tag = "2")]
    pub index: u64,
    #[prost(uint64, tag = "3")]
    pub term: u64,
}

accessors! { SnapshotMetadata:
    nested conf_state get_conf_state set_conf_state ConfState, mut_conf_state, take_conf_state;
}

#[derive(Clone, PartialEq, Prost)]
pub struct Snapshot {
    #[prost(bytes = "bytes", tag = "1")]
    pub data: Bytes,
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<SnapshotMetadata>,
}

accessors! { Snapshot:
    owned data get_data set_data Bytes, mut_data, take_data;
    nested metadata get_metadata set_metadata SnapshotMetadata, mut_metadata, take_metadata;
}

impl Snapshot {
    pub fn is_empty(&self) -> bool {
        self.get_metadata().index == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum MessageType {
    MsgHup = 0,
    MsgBeat = 1,
    MsgPropose = 2,
    MsgAppend = 3,
    MsgAppendResponse = 4,
    MsgRequestVote = 5,
    MsgRequestVoteResponse = 6,
    MsgSnapshot = 7,
    MsgHeartbeat = 8,
    MsgHeartbeatResponse = 9,
    MsgUnreachable = 10,
    MsgSnapStatus = 11,
    MsgCheckQuorum = 12,
    MsgTransferLeader = 13,
    MsgTimeoutNow = 14,
    MsgReadIndex = 15,
    MsgReadIndexResp = 16,
    MsgRequestPreVote = 17,
    MsgRequestPreVoteResponse = 18,
}

#[derive(Clone, PartialEq, Prost)]
pub struct Message {
    #[prost(enumeration = "MessageType", tag = "1")]
    pub msg_type: i32,
    #[prost(uint64, tag = "2")]
    pub to: u64,
    #[prost(uint64, tag = "3")]
    pub from: u64,
    #[prost(uint64, tag = "4")]
    pub term: u64,
    #[prost(uint64, tag = "5")]
    pub log_term: u64,
    #[prost(uint64, tag = "6")]
    pub index: u64,
    #[prost(message, repeated, tag = "7")]
    pub entries: Vec<Entry>,
    #[prost(uint64, tag = "8")]
    pub commit: u64,
    #[prost(uint64, tag = "15")]
    pub commit_term: u64,
    #[prost(message, optional, tag = "9")]
    pub snapshot: Option<Snapshot>,
    #[prost(uint64, tag = "13")]
    pub request_snapshot: u64,
    #[prost(bool, tag = "10")]
    pub reject: bool,
    #[prost(uint64, tag = "11")]
    pub reject_hint: u64,
    #[prost(bytes = "bytes", tag = "12")]
    pub context: Bytes,
    #[prost(uint64, tag = "14")]
    pub deprecated_priority: u64,
    #[prost(int64, tag = "16")]
    pub priority: i64,
}

accessors! { Message:
    enumerated msg_type get_msg_type set_msg_type MessageType;
    value index get_index set_index u64;
    value commit get_commit set_commit u64;
    owned entries get_entries set_entries Vec<Entry>, mut_entries, take_entries;
    nested snapshot get_snapshot set_snapshot Snapshot, mut_snapshot, take_snapshot;
    owned context get_context set_context Bytes, mut_context, take_context;
}

#[derive(Clone, PartialEq, Prost)]
pub struct HardState {
    #[prost(uint64, tag = "1")]
    pub term: u64,
    #[prost(uint64, tag = "2")]
    pub vote: u64,
    #[prost(uint64, tag = "3")]
    pub commit: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum ConfChangeTransition {
    Auto = 0,
    Implicit = 1,
    Explicit = 2,
}

#[derive(Clone, PartialEq, Prost)]
pub struct ConfState {
    #[prost(uint64, repeated, tag = "1")]
    pub voters: Vec<u64>,
    #[prost(uint64, repeated, tag = "2")]
    pub learners: Vec<u64>,
    #[prost(uint64, repeated, tag = "3")]
    pub voters_outgoing: Vec<u64>,
    #[prost(uint64, repeated, tag = "4")]
    pub learners_next: Vec<u64>,
    #[prost(bool, tag = "5")]
    pub auto_leave: bool,
}

accessors! { ConfState:
    owned voters get_voters set_voters Vec<u64>, mut_voters, take_voters;
    owned learners get_learners set_learners Vec<u64>, mut_learners, take_learners;
    owned voters_outgoing get_voters_outgoing set_voters_outgoing Vec<u64>, mut_voters_outgoing, take_voters_outgoing;
    owned learners_next get_learners_next set_learners_next Vec<u64>, mut_learners_next, take_learners_next;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum ConfChangeType {
    AddNode = 0,
    RemoveNode = 1,
    AddLearnerNode = 2,
}

/// Of before raft-rs had joint consensus: it still names it, kompat never writes it.
#[derive(Clone, PartialEq, Prost)]
pub struct ConfChange {
    #[prost(enumeration = "ConfChangeType", tag = "2")]
    pub change_type: i32,
    #[prost(uint64, tag = "3")]
    pub node_id: u64,
    #[prost(bytes = "bytes", tag = "4")]
    pub context: Bytes,
}

accessors! { ConfChange:
    enumerated change_type get_change_type set_change_type ConfChangeType;
}

#[derive(Clone, PartialEq, Prost)]
pub struct ConfChangeSingle {
    #[prost(enumeration = "ConfChangeType", tag = "1")]
    pub change_type: i32,
    #[prost(uint64, tag = "2")]
    pub node_id: u64,
}

accessors! { ConfChangeSingle:
    enumerated change_type get_change_type set_change_type ConfChangeType;
}

#[derive(Clone, PartialEq, Prost)]
pub struct ConfChangeV2 {
    #[prost(enumeration = "ConfChangeTransition", tag = "1")]
    pub transition: i32,
    #[prost(message, repeated, tag = "2")]
    pub changes: Vec<ConfChangeSingle>,
    #[prost(bytes = "bytes", tag = "3")]
    pub context: Bytes,
}

accessors! { ConfChangeV2:
    enumerated transition get_transition set_transition ConfChangeTransition;
    owned changes get_changes set_changes Vec<ConfChangeSingle>, mut_changes, take_changes;
}
