"""How brokers call each other: one request, one handler, on whichever broker it runs.

    class CancelDelayed(LeaderRequest[Scheduled], frozen=True):
        slot: Offset

    rpc.serve(CancelDelayed, self._cancel)              # async def _cancel(self, partition, request) -> Scheduled
    await rpc.call(log_id, CancelDelayed(slot))         # here, or at the broker that leads the partition

A request is a struct (`messages.py`) with a type of receiver and a type of reply. A service registers one handler for it with
the broker's `Router`; `Router.call` finds the receiver and runs the handler there. If this broker is the receiver, the
handler gets the request object itself: nothing is encoded. So a service has one implementation, and a single broker is a
cluster in which every receiver is this broker.

| receiver (`to`)          | request             | who that is                                            | refused with             |
| ------------------------ | ------------------- | ------------------------------------------------------ | ------------------------ |
| `LogId`                  | `LeaderRequest`     | the partition's leader; the handler gets the partition | NOT_LEADER_OR_FOLLOWER   |
| `Coordinator(topic, key)`| `LeaderRequest`     | the leader of the key's partition in an internal topic | NOT_COORDINATOR          |
| `CONTROLLER`             | `ControllerRequest` | the leader of the cluster's metadata                   | NOT_CONTROLLER           |
| `NodeId`                 | `BrokerRequest`     | that broker                                            | BROKER_NOT_AVAILABLE     |
| all brokers (`call_all`) | `BrokerRequest`     | this broker, and all others that can be reached        | (left out)               |

What `call` does, so that no caller has to:

- Retries. A receiver that is unavailable, has moved, is not ready or is busy has not executed the request: it is sent again, to
  the receiver at that time, for the seconds of the request's `patience`. If the response was lost, or the handler failed
  with a temporary error, it may have been executed: only an idempotent request is sent again.
- Metadata. A controller's response has the end of its metadata log; the caller waits until it has read up to there, so that
  it sees what was decided. A request has the caller's position in the metadata log; a receiver that does not know the
  partition yet reads up to there before it refuses the request.
- Deadlines. Every attempt has a timeout; a handler is not interrupted when it is over.
- Back-pressure. Calls and bytes in flight to a broker are bounded (`window.py`), and further calls wait in order. Long polls
  have a window of their own.
- Errors. KafkaError, StorageError and their subclasses are raised at the caller as they were raised at the handler
  (`codec.py`); a bug at the receiver is UNKNOWN_SERVER_ERROR, and in its log.

On the wire requests and replies are msgpack (`codec.py`), in one kind of call of the links (`raft/links`). Its version is
part of the handshake of the links: brokers of different versions refuse each other with a message.
"""
