//! What Python can ask of a group; `kompat/_native.pyi` describes each.

use prost::Message as _;
use pyo3::prelude::*;
use raft::eraftpb::{self, EntryType};
use raft::{Config, SnapshotStatus, StateRole};

use super::fault::{MembershipRefused, RaftError};
use super::group::{GivenEntry, Log, RaftGroup, invalid, to_entry};
use super::membership::{self, ConfState};
use super::message;
use super::outcome::{HardState, Ready};
use super::payload;
use super::status::{self, Status};
use super::store::Position;

#[pymethods]
impl RaftGroup {
    #[new]
    #[pyo3(signature = (
        *, id, members, hard_state, base, last, runs, applied, seed, memberships=vec![], election_tick=10,
        heartbeat_tick=1, max_bytes=1 << 20, max_inflight=64, cache_bytes=4 << 20, tell_commits=true
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        id: u64,
        members: &Bound<'_, ConfState>,
        hard_state: &Bound<'_, HardState>,
        base: Position,
        last: u64,
        runs: Vec<Position>,
        applied: u64,
        seed: u64,
        memberships: Vec<GivenEntry<'_>>,
        election_tick: usize,
        heartbeat_tick: usize,
        max_bytes: u64,
        max_inflight: usize,
        cache_bytes: usize,
        tell_commits: bool,
    ) -> PyResult<Self> {
        let store = Log { base, last, runs, applied }.open(members.get(), hard_state.get(), &memberships)?;
        let config = Config {
            id,
            election_tick,
            heartbeat_tick,
            applied,
            max_size_per_msg: max_bytes,
            max_inflight_msgs: max_inflight,
            check_quorum: true,
            pre_vote: true,
            batch_append: true,
            skip_bcast_commit: !tell_commits,
            ..Default::default()
        };
        Self::open(config, store, seed, cache_bytes)
    }

    #[getter]
    fn id(&self) -> u64 {
        self.node.raft.id
    }

    #[getter]
    fn term(&self) -> u64 {
        self.node.raft.term
    }

    #[getter]
    fn leader(&self) -> u64 {
        self.node.raft.leader_id
    }

    #[getter]
    fn is_leader(&self) -> bool {
        self.is_leading()
    }

    #[getter]
    fn commit(&self) -> u64 {
        self.node.raft.raft_log.committed
    }

    #[getter]
    fn last(&self) -> u64 {
        self.node.raft.raft_log.last_index()
    }

    #[getter]
    fn quiet(&self) -> bool {
        self.quiet
    }

    #[getter]
    fn muted(&self) -> bool {
        self.muted
    }

    #[setter]
    fn set_muted(&mut self, muted: bool) {
        self.muted = muted;
    }

    #[getter]
    fn outdated(&self) -> bool {
        self.outdated
    }

    #[getter]
    fn cached_bytes(&self) -> usize {
        self.node.store().cached_bytes()
    }

    fn status(&mut self, py: Python<'_>) -> PyResult<Status> {
        self.guard(|group| status::status(py, &group.node, group.quiet))
    }

    fn term_at(&mut self, index: u64) -> PyResult<Option<u64>> {
        self.guard(|group| Ok(group.node.raft.raft_log.term(index).ok().filter(|term| *term > 0)))
    }

    fn tick(&mut self) -> PyResult<bool> {
        self.guard(|group| {
            if !group.quiet {
                group.tick_once();
            }
            Ok(group.has_work())
        })
    }

    fn campaign(&mut self) -> PyResult<()> {
        self.guard(|group| {
            group.wake_up();
            if !group.node.raft.promotable() {
                return Err(RaftError::new_err("only a voter can campaign"));
            }
            if !group.may_campaign() {
                return Err(RaftError::new_err("the log is not yet on disk"));
            }
            group.node.campaign().map_err(|error| RaftError::new_err(error.to_string()))
        })
    }

    #[pyo3(signature = (payload, context=None))]
    fn propose(&mut self, payload: &Bound<'_, PyAny>, context: Option<&Bound<'_, PyAny>>) -> PyResult<Position> {
        let data = payload::borrow(payload)?;
        let context = context.map(payload::copy).transpose()?;
        self.guard(|group| {
            group.need_leader()?;
            group.wake_up();
            group.append(eraftpb::Entry { data, context: context.unwrap_or_default(), ..Default::default() })
        })
    }

    fn step(&mut self, header: &Bound<'_, PyAny>, payloads: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let message = message::incoming(header, payloads)?;
        self.guard(|group| {
            group.wake_up();
            group.receive(message)
        })
    }

    fn has_ready(&mut self) -> PyResult<bool> {
        self.guard(|group| Ok(group.has_work()))
    }

    fn ready(&mut self, py: Python<'_>) -> PyResult<Option<Ready>> {
        self.guard(|group| if group.has_work() { group.collect(py).map(Some) } else { Ok(None) })
    }

    fn persisted(&mut self, number: u64) -> PyResult<()> {
        self.guard(|group| {
            if number > group.told {
                return Err(invalid(format!("ready {number} has not been given out")));
            }
            group.persisted = group.persisted.max(number);
            group.node.on_persist_ready(number);
            group.release();
            Ok(())
        })
    }

    fn applied(&mut self, index: u64) -> PyResult<()> {
        self.guard(|group| {
            let log = &group.node.raft.raft_log;
            let end = group.delivered.min(log.persisted);
            if index < log.applied || index > end {
                return Err(invalid(format!("applied {index} is not in {}..={end}", log.applied)));
            }
            let later = group.pending.split_off(&(index + 1));
            let members = group.pending.pop_last().map(|(_, members)| members);
            group.pending = later;
            let members = members.unwrap_or_else(|| group.node.store().members().clone());
            group.node.mut_store().set_applied(index, members);
            group.node.advance_apply_to(index);
            Ok(())
        })
    }

    #[pyo3(signature = (changes, joint=false, auto_leave=true))]
    fn propose_membership(&mut self, changes: Vec<(u8, u64)>, joint: bool, auto_leave: bool) -> PyResult<Position> {
        let change = membership::change(changes, joint, auto_leave)?;
        self.guard(|group| {
            group.need_leader()?;
            group.wake_up();
            if group.node.raft.has_pending_conf() {
                return Err(MembershipRefused::new_err("another change of members is under way"));
            }
            membership::rehearse(group.node.raft.prs(), &change)?;
            let mut entry = eraftpb::Entry::default();
            entry.set_entry_type(EntryType::EntryConfChangeV2);
            entry.data = change.encode_to_vec().into();
            group.append(entry)
        })
    }

    fn apply_membership(&mut self, index: u64, payload: &Bound<'_, PyAny>) -> PyResult<ConfState> {
        let change = membership::parse(&payload::borrow(payload)?)?;
        self.guard(|group| {
            let newest = group.pending.last_key_value().map(|(index, _)| *index);
            if index <= newest.unwrap_or(group.node.raft.raft_log.applied) || index > group.delivered {
                return Err(invalid(format!("entry {index} is not the next change of members")));
            }
            let members = group.node.apply_conf_change(&change);
            let members = members.map_err(|error| MembershipRefused::new_err(error.to_string()))?;
            group.pending.insert(index, members.clone());
            let raft = &mut group.node.raft;
            if raft.state == StateRole::Leader && !raft.promotable() {
                raft.become_follower(raft.term, 0); // raft-rs lets a removed leader lead on, and then panics
            }
            group.wake_up();
            Ok(ConfState::from(&members))
        })
    }

    fn transfer_leadership(&mut self, to: u64) -> PyResult<()> {
        self.guard(|group| {
            group.need_leader()?;
            group.wake_up();
            let raft = &group.node.raft;
            if to == raft.id || !raft.prs().conf().voters().contains(to) {
                return Err(RaftError::new_err(format!("{to} is no other voter")));
            }
            group.node.transfer_leader(to);
            Ok(())
        })
    }

    fn read_index(&mut self, context: &Bound<'_, PyAny>) -> PyResult<bool> {
        let context = payload::copy(context)?;
        self.guard(|group| {
            group.wake_up();
            let raft = &group.node.raft;
            if raft.leader_id == 0 || (group.is_leading() && !raft.commit_to_current_term()) {
                return Ok(false);
            }
            group.node.read_index(context.to_vec());
            Ok(true)
        })
    }

    fn supply_entries(&mut self, want: u64, entries: Vec<GivenEntry<'_>>) -> PyResult<()> {
        let entries = entries.iter().map(to_entry).collect::<PyResult<Vec<_>>>()?;
        self.guard(|group| {
            let Some((first, end)) = group.node.store().want(want) else { return Ok(()) }; // no longer the leader
            group.check_supplied(first, end, &entries)?;
            let is_empty = entries.is_empty(); // then to try at once would be to ask at once
            let waiting = group.node.mut_store().supply(want, entries);
            for context in waiting.into_iter().filter(|_| !is_empty) {
                group.node.on_entries_fetched(context);
            }
            group.node.mut_store().forget_supplied();
            Ok(())
        })
    }

    #[pyo3(signature = (index, members=None, data=None))]
    fn pin_snapshot(
        &mut self,
        index: u64,
        members: Option<&Bound<'_, ConfState>>,
        data: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let data = data.map(payload::copy).transpose()?;
        self.guard(|group| {
            let log = &group.node.raft.raft_log;
            let store = group.node.store();
            let (first, applied) = (store.base().0, log.applied);
            let term = store.term_at(index).filter(|_| index > 0 && index >= first && index <= applied);
            let Some(term) = term else {
                return Err(invalid(format!("a snapshot of {index} is not in {first}..={applied}")));
            };
            let mut snapshot = eraftpb::Snapshot { data: data.unwrap_or_default(), ..Default::default() };
            let metadata = snapshot.mut_metadata();
            metadata.index = index;
            metadata.term = term;
            metadata.set_conf_state(members.map_or_else(|| store.members().clone(), |given| given.get().to_proto()));
            group.node.mut_store().pin_snapshot(Some(snapshot));
            Ok(())
        })
    }

    fn unpin_snapshot(&mut self) -> PyResult<()> {
        self.guard(|group| {
            group.node.mut_store().pin_snapshot(None);
            Ok(())
        })
    }

    fn report_snapshot(&mut self, to: u64, ok: bool) -> PyResult<()> {
        let outcome = if ok { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
        self.guard(|group| {
            group.node.report_snapshot(to, outcome);
            Ok(())
        })
    }

    fn report_unreachable(&mut self, peer: u64) -> PyResult<()> {
        self.guard(|group| {
            group.node.report_unreachable(peer);
            Ok(())
        })
    }

    fn reset_peer(&mut self, peer: u64) -> PyResult<()> {
        self.guard(|group| {
            group.forget_progress(peer);
            Ok(())
        })
    }

    fn ping(&mut self) -> PyResult<()> {
        self.guard(|group| {
            group.wake_up();
            group.node.ping();
            Ok(())
        })
    }

    fn compact(&mut self, index: u64) -> PyResult<()> {
        self.guard(|group| {
            let (first, applied) = (group.node.store().base().0, group.node.raft.raft_log.applied);
            if index > applied {
                return Err(invalid(format!("{index} is not applied yet, only {applied} is")));
            }
            if index > first {
                group.node.mut_store().compact(index);
            }
            Ok(())
        })
    }

    fn trim_cache(&mut self, limit: usize) -> PyResult<()> {
        self.guard(|group| {
            let persisted = group.node.raft.raft_log.persisted;
            group.node.mut_store().release(0, limit, persisted);
            Ok(())
        })
    }

    fn become_quiet(&mut self) -> PyResult<bool> {
        self.guard(|group| {
            group.quiet = group.is_settled() && !group.has_work();
            Ok(group.quiet)
        })
    }

    fn wake(&mut self) -> PyResult<()> {
        self.guard(|group| {
            group.wake_up();
            Ok(())
        })
    }
}
