package doctor

import (
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// Options configure a [Service]. All but Log and Now are needed.
type Options struct {
	Agents      Agents
	Clients     Clients
	Credentials Credentials
	Rights      Rights
	Quotas      Quotas
	Publish     func(to protocol.Recipients, m protocol.Message) (receivers int, err error)
	Topics      protocol.Topics
	BridgeID    string
	Log         *slog.Logger
	Now         func() time.Time
}

// A Service examines agents. [Service.Run] must run for devices to be told their
// mistakes.
type Service struct {
	Options
	book *Casebook

	news      chan notice
	examining chan struct{} // one for each examination that goes on

	mu    sync.Mutex
	told  map[subjectOfNotice]time.Time // when a device was notified of a kind of fault
	swept time.Time                     // when old ones of told were forgotten last
	seq   uint64                        // of events; Run's alone
}

// New makes a service.
func New(o Options) *Service {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{Options: o, book: NewCasebook(o.Now), news: make(chan notice, waitingNotices), examining: make(chan struct{}, mostExamining), told: make(map[subjectOfNotice]time.Time)}
}

// Commands are the commands of the doctor.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{commands.New(agentDoctor, s.Examine)}
}

// Note remembers a fault. It does not block.
func (s *Service) Note(f Fault) { s.book.Note(f) }

// NoteAndTell remembers a fault of a principal that is known and connected, and tells its
// agents. It does not block.
func (s *Service) NoteAndTell(f Fault) {
	s.book.Note(f)
	s.tell(f)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
