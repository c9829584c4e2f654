//! What raft-rs 0.7 uses of rust-protobuf 2, done by prost.
//!
//! rust-protobuf 2 is no longer kept up, and has an advisory without a mend (RUSTSEC-2024-0437, unbounded recursion). raft-rs
//! asks for it by name, and its own features cannot leave it out; so this crate stands in its place (`[patch.crates-io]`).

pub type ProtobufError = prost::DecodeError;
pub type ProtobufResult<T> = Result<T, ProtobufError>;

/// The methods that raft-rs calls, of anything that prost writes and reads.
pub trait Message: prost::Message + Default {
    fn compute_size(&self) -> u32 {
        self.encoded_len() as u32
    }

    fn write_to_bytes(&self) -> ProtobufResult<Vec<u8>> {
        Ok(self.encode_to_vec())
    }

    fn merge_from_bytes(&mut self, bytes: &[u8]) -> ProtobufResult<()> {
        self.merge(bytes)
    }
}

impl<T: prost::Message + Default> Message for T {}
