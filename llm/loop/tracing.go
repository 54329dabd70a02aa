package loop

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/internal/telemetry/semconv"
	"github.com/aibridge/aibridge/protocol"
)

// traced calls answer within a span of an agent, by the GenAI conventions. The span
// does not hold the messages.
func (r *Runner) traced(ctx context.Context, c *Conversation, answer func(context.Context) (*Turn, error)) (*Turn, error) {
	began := r.opts.Now()
	var span trace.Span
	if r.opts.Tracer != nil {
		ctx, span = r.opts.Tracer.Start(ctx, semconv.InvokeAgent+" "+r.opts.Agent, trace.WithAttributes(
			semconv.Operation.String(semconv.InvokeAgent), semconv.AgentName.String(r.opts.Agent)))
		defer span.End()
	}
	turn, err := answer(ctx)
	r.metrics.took.WithLabelValues(errorType(err)).Observe(r.opts.Now().Sub(began).Seconds())
	if span == nil {
		return turn, err
	}
	if c.Session != "" {
		span.SetAttributes(semconv.Conversation.String(c.Session))
	}
	if err != nil {
		span.SetAttributes(semconv.ErrorType.String(errorType(err)))
		span.SetStatus(codes.Error, protocol.CodeOf(err).String())
	}
	if turn.Reply != nil {
		span.SetAttributes(
			semconv.ResponseModel.String(turn.Reply.Model),
			semconv.FinishReasons.StringSlice([]string{string(turn.Reply.Answer.Finish.Reason)}),
			semconv.InputTokens.Int(turn.Reply.Usage.Input), semconv.OutputTokens.Int(turn.Reply.Usage.Output),
		)
	}
	return turn, err
}

// errorType is an error's code, "" for none.
func errorType(err error) string {
	if err == nil {
		return ""
	}
	return string(protocol.CodeOf(err))
}
