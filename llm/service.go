package llm

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/loop"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/protocol"
)

// A Loop runs conversations of models with tools, see [loop.Runner].
type Loop interface {
	Converse(ctx context.Context, c loop.Conversation, emit func(chat.Event) error) (*loop.Turn, error)
	loop.Resumer
}

// Options configure a [Service].
type Options struct {
	Models *model.Service
	Loop   Loop // nil refuses queries with tools
	// Parked stores queries whose tool calls wait for an approval. With nil they wait
	// no longer than the query.
	Parked *parked.Service
	// MayActFor returns the error of a caller that may not ask on behalf of a skill.
	// Optional.
	MayActFor func(ctx context.Context, call *commands.Call, skill string) error
	// MayName returns the error of a principal that is not the site which a name belongs to.
	// Nil lends nothing to anybody.
	MayName func(space protocol.SpaceID, name string, who *protocol.Principal) error
	// Elsewhere returns the state of the models at other bridges; nil without other
	// bridges.
	Elsewhere func(ctx context.Context) []model.BridgeStatus
}

// A Service runs the commands of the package. It is safe for use by many
// goroutines.
type Service struct{ opts Options }

// New makes a service.
func New(o Options) *Service {
	s := &Service{o}
	if o.Parked != nil {
		o.Parked.Handle(query.Name, s.resume)
		o.Parked.Handle(advancedQuery.Name, s.resume)
	}
	return s
}

// Commands are the commands of the package.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(query, s.Query),
		commands.New(advancedQuery, s.AdvancedQuery),
		commands.New(status, s.Status),
		commands.New(models, s.Models),
		commands.New(spend, s.Spend),
		commands.New(budgetList, s.BudgetList),
		commands.New(budgetLend, s.BudgetLend),
	}
}
