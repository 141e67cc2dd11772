"""The whole error tree. The type says whose fault it is and whether trying again helps.

LimpetError
├─ UsageError              the caller's mistake
│  ├─ UnknownState         no state has that id
│  ├─ UnknownStore         nothing is stored there yet
│  ├─ UnknownAddress       no event stands at that address
│  ├─ AmbiguousAddress     the text means several events
│  ├─ UnknownTimeline      the state has no timeline of that number
│  │  └─ TimelineDropped   a cleanup has dropped records of it
│  ├─ UnknownCheckpoint    no checkpoint of the state stands there
│  │  └─ CheckpointDropped a cleanup has dropped it, or what stood before it
│  ├─ WrongReplacement     a result is to be replaced by a value of another type
│  ├─ OnceAgain            what is declared once and recorded would be executed again
│  ├─ RolledBack           what the run had done was undone
│  ├─ InvalidStateId       the id cannot name a state
│  ├─ InvalidAddress       the text is not an address
│  ├─ InvalidStoreUrl      the URL names no backend that we have
│  ├─ InvalidMetadata      the metadata holds something that is not plain JSON
│  ├─ AgentNotFound        nothing runnable is known under that name
│  ├─ AgentNotAllowed      a stored state names code that nobody has allowed to be run
│  ├─ StateMismatch        the id belongs to a run of another agent or another input
│  ├─ ValueNotStorable     a value cannot be written so that it comes back equal
│  ├─ InvalidArtifactId    the text cannot be the id of an artifact
│  ├─ ContentChanged       what was to be stored changed while it was being stored
│  ├─ ArtifactsShared      other stores use these artifacts too, so none can be proved unreachable
│  ├─ InvalidKey           the text is not a key for encryption
│  ├─ WrongAnswer          an answer does not fit its question, which stays open
│  ├─ AlreadyAnswered      a question was answered otherwise, or is not open any more
│  ├─ NotImported          the file or folder is no exported state that can be read
│  │  └─ ImportTooLarge    it is larger than was allowed
│  └─ ConfigurationError   settings in a file, the environment or arguments are not right
├─ ReplayError             the journal and the code disagree
│  ├─ NotRecorded          a rehearsal reached a call that has no recorded outcome
│  ├─ Drift                the code no longer fits the record, where that is declared an error
│  ├─ OutcomeUnknown       a call declared once was cut off; the state awaits that a person says what became of it
│  ├─ ValueNotReadable     a recorded value cannot be built again in this program
│  ├─ SecretNeeded         a secret was not stored, and is used in a replay
│  └─ AttributeNotKept     something of a recorded exception is used that could not be recorded
├─ BackendError            the store
│  ├─ BackendUnavailable   it does not answer now; trying again may help
│  │  └─ StoreFull         there is no room left
│  ├─ LeaseHeld            another process runs this state; trying again later helps
│  ├─ LeaseLost            this process no longer has the right to write the state
│  │  ├─ LeaseOfParent     it was forked from the one that has it
│  │  └─ StateDeleted      the state was deleted while it was held and idle
│  ├─ PositionTaken        a record does not fit the position it was to be written at
│  ├─ StoreNotWritable     the file or folder may not be written
│  ├─ NotAStore            the file is something else
│  ├─ UnsupportedVersion   written by a newer Limpet
│  ├─ StoreReplaced        its files were deleted or replaced while they were open
│  ├─ StoreDamaged         the store as a whole cannot be read
│  ├─ StateCorrupted       the stored bytes of one state are damaged
│  ├─ ArtifactMissing      a recorded artifact is not there
│  ├─ ArtifactCorrupted    the stored bytes of an artifact are not those that it is named after
│  ├─ WrongKey             what is stored was encrypted with a key that is not given
│  └─ NotEncrypted         a record is in clear where only encrypted ones are accepted
├─ EventFailed             user code failed
│  ├─ ConditionFailed      a precondition or postcondition did not hold
│  ├─ EventTimedOut        it took longer than it was given (also a TimeoutError)
│  ├─ DeadlinePassed       nothing came by the deadline of a question or a message
│  └─ QuestionWithdrawn    somebody has taken a question back
├─ ExecutionInterrupted    the run was stopped; running it again goes on
│  └─ BudgetExceeded       because it has used up its budget
├─ Awaiting                the run waits for a time or a message; running it again goes on
│  └─ AwaitingAnswer       for a person to answer
└─ MissingDependency       an optional part is not installed

Arguments go unchanged to ``super().__init__`` and the text is built in ``__str__``, so that errors survive pickling
between processes. Every text says what happened, to which thing, why, and what to do next.
"""

from limpet.errors.backend import (
    ArtifactCorrupted,
    ArtifactMissing,
    BackendError,
    BackendUnavailable,
    LeaseHeld,
    LeaseLost,
    LeaseOfParent,
    NotAStore,
    NotEncrypted,
    PositionTaken,
    StateCorrupted,
    StateDeleted,
    StoreDamaged,
    StoreFull,
    StoreNotWritable,
    StoreReplaced,
    UnsupportedVersion,
    WrongKey,
)
from limpet.errors.events import (
    BudgetExceeded,
    ConditionFailed,
    EventFailed,
    EventTimedOut,
    ExecutionInterrupted,
)
from limpet.errors.replay import (
    AttributeNotKept,
    Drift,
    DriftWarning,
    LateCallWarning,
    NotRecorded,
    NotResumableWarning,
    OutcomeUnknown,
    ReplayError,
    SecretNeeded,
    ValueNotReadable,
)
from limpet.errors.root import (
    LimpetError,
)
from limpet.errors.usage import (
    AgentNotAllowed,
    AgentNotFound,
    AmbiguousAddress,
    ArtifactsShared,
    CheckpointDropped,
    ConfigurationError,
    ConfigurationProblem,
    ContentChanged,
    ImportTooLarge,
    InvalidAddress,
    InvalidArtifactId,
    InvalidKey,
    InvalidMetadata,
    InvalidStateId,
    InvalidStoreUrl,
    MissingDependency,
    NotImported,
    OnceAgain,
    RolledBack,
    StateMismatch,
    TimelineDropped,
    UnknownAddress,
    UnknownCheckpoint,
    UnknownState,
    UnknownStore,
    UnknownTimeline,
    UsageError,
    ValueNotStorable,
    WrongReplacement,
)
from limpet.errors.waits import (
    AlreadyAnswered,
    Awaiting,
    AwaitingAnswer,
    DeadlinePassed,
    QuestionWithdrawn,
    WrongAnswer,
)

__all__ = [
    "AgentNotAllowed",
    "AgentNotFound",
    "AlreadyAnswered",
    "AmbiguousAddress",
    "ArtifactCorrupted",
    "ArtifactMissing",
    "ArtifactsShared",
    "AttributeNotKept",
    "Awaiting",
    "AwaitingAnswer",
    "BackendError",
    "BackendUnavailable",
    "BudgetExceeded",
    "CheckpointDropped",
    "ConditionFailed",
    "ConfigurationError",
    "ConfigurationProblem",
    "ContentChanged",
    "DeadlinePassed",
    "Drift",
    "DriftWarning",
    "EventFailed",
    "EventTimedOut",
    "ExecutionInterrupted",
    "ImportTooLarge",
    "InvalidAddress",
    "InvalidArtifactId",
    "InvalidKey",
    "InvalidMetadata",
    "InvalidStateId",
    "InvalidStoreUrl",
    "LateCallWarning",
    "LeaseHeld",
    "LeaseLost",
    "LeaseOfParent",
    "LimpetError",
    "MissingDependency",
    "NotAStore",
    "NotEncrypted",
    "NotImported",
    "NotRecorded",
    "NotResumableWarning",
    "OnceAgain",
    "OutcomeUnknown",
    "PositionTaken",
    "QuestionWithdrawn",
    "ReplayError",
    "RolledBack",
    "SecretNeeded",
    "StateCorrupted",
    "StateDeleted",
    "StateMismatch",
    "StoreDamaged",
    "StoreFull",
    "StoreNotWritable",
    "StoreReplaced",
    "TimelineDropped",
    "UnknownAddress",
    "UnknownCheckpoint",
    "UnknownState",
    "UnknownStore",
    "UnknownTimeline",
    "UnsupportedVersion",
    "UsageError",
    "ValueNotReadable",
    "ValueNotStorable",
    "WrongAnswer",
    "WrongKey",
    "WrongReplacement",
]
