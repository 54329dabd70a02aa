package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/connect/binding"
	"github.com/aibridge/aibridge/connect/device"
	"github.com/aibridge/aibridge/connect/template"
	"github.com/aibridge/aibridge/protocol"
)

func bindingCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "binding", Short: "Try out how devices on plain topics are described"}
	cmd.AddCommand(bindingTestCommand())
	return cmd
}

// A bindingTest is one run of aibridge binding test.
type bindingTest struct {
	target   target
	messages []string
	live     bool
	patience time.Duration
	until    int
	root     string
	out      io.Writer
}

func bindingTestCommand() *cobra.Command {
	var b bindingTest
	cmd := &cobra.Command{
		Use:   "test FILE [SKILL CAPABILITY [name=value…]]",
		Short: "Check a file of bindings, and show what it publishes and reads",
		Long: `Check a file of bindings (docs/bindings.md). With a skill and a capability, show
what is published for the params. With --message, show what a message says: the
presence, the state, the answer. No bridge has to run; with --live the messages
are published to one and its messages read, by the credentials shown.`,
		Example: `  aibridge binding test lamp.yaml
  aibridge binding test lamp.yaml desk-lamp set on=true brightness=40
  aibridge binding test lamp.yaml --message 'lamps/desk/state={"state":"ON"}'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b.out = cmd.OutOrStdout()
			return b.run(cmd, args)
		},
	}
	cmd.Flags().StringArrayVar(&b.messages, "message", nil, "a message to read, as TOPIC=PAYLOAD; again for more")
	cmd.Flags().BoolVar(&b.live, "live", false, "publish to a bridge, and read what comes")
	cmd.Flags().DurationVar(&b.patience, "for", 10*time.Second, "how long to read with --live")
	cmd.Flags().IntVar(&b.until, "until", 0, "end --live after so many messages; 0 goes by --for alone")
	b.target.addFlags(cmd.Flags())
	return cmd
}

func (b *bindingTest) run(cmd *cobra.Command, args []string) error {
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	b.root = b.target.root
	if b.root == "" {
		b.root = "aibridge"
	}
	file, err := binding.Parse(args[0], text, b.root)
	if err != nil {
		return err
	}
	topics := 0
	for _, d := range file.Devices {
		topics += len(d.Topics())
	}
	fmt.Fprintf(b.out, "%s is right: %s read from %s, space %s\n", args[0], counted(len(file.Devices), "device"), counted(topics, "topic"), file.Space)
	var published []device.Message
	if len(args) > 1 {
		if published, err = b.render(cmd, file, args[1:]); err != nil {
			return err
		}
	}
	for _, m := range b.messages {
		topic, payload, ok := strings.Cut(m, "=")
		if !ok {
			return usageError{fmt.Errorf("--message %q is not TOPIC=PAYLOAD", m)}
		}
		if !b.tell(file, topic, []byte(payload)) {
			return fmt.Errorf("no device is read from %s", topic)
		}
	}
	if b.live {
		return b.watch(cmd.Context(), file, published)
	}
	return nil
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// render shows the messages that a capability publishes for params.
func (b *bindingTest) render(cmd *cobra.Command, file *binding.File, args []string) ([]device.Message, error) {
	if len(args) < 2 {
		return nil, usageError{errors.New("a skill needs a capability behind it")}
	}
	var c *device.Capability
	for _, d := range file.Devices {
		if found := d.Find(args[0], args[1]); found != nil {
			c = found
		}
	}
	if c == nil {
		return nil, fmt.Errorf("the file has no skill %s with a capability %s", args[0], args[1])
	}
	given, err := parseArguments(args[2:], c.Params, cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	params, err := json.Marshal(given)
	if err != nil {
		return nil, err
	}
	if err := binding.CheckParams(c, params); err != nil {
		return nil, fmt.Errorf("the params: %w", err)
	}
	messages, err := c.Messages(params, b.root)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		retain := ""
		if m.Retain {
			retain = ", retained"
		}
		fmt.Fprintf(b.out, "publish  %s  %s  (QoS %d%s)\n", cell(m.Topic), cell(string(m.Payload)), m.QoS, retain)
	}
	return messages, nil
}

// tell shows the values in a message, and reports whether any device reads it.
func (b *bindingTest) tell(file *binding.File, topic string, payload []byte) (read bool) {
	for _, d := range file.Devices {
		for _, told := range d.Tell(topic, payload) {
			read = true
			switch {
			case errors.Is(told.Err, template.ErrUndefined):
				fmt.Fprintf(b.out, "%s: the message does not say it\n", told.What)
			case told.Err != nil:
				fmt.Fprintf(b.out, "%s: cannot be read: %v\n", told.What, told.Err)
			default:
				fmt.Fprintf(b.out, "%s = %s\n", told.What, cell(template.Text(told.Value)))
			}
		}
	}
	return read
}

// watch publishes to a bridge, and shows the values in its messages.
func (b *bindingTest) watch(ctx context.Context, file *binding.File, published []device.Message) error {
	c, err := b.target.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	heard := make(chan client.Message)
	subscribed := map[string]bool{}
	for _, d := range file.Devices {
		for _, topic := range d.Topics() {
			if subscribed[topic] {
				continue
			}
			subscribed[topic] = true
			if _, err := c.Subscribe(ctx, topic, func(ctx context.Context, m client.Message) {
				select {
				case heard <- m:
				case <-ctx.Done():
				}
			}); err != nil {
				return fmt.Errorf("subscribe %s: %w", topic, err)
			}
		}
	}
	for _, m := range published {
		if err := c.Publish(ctx, client.Message{Topic: m.Topic, Payload: m.Payload, QoS: m.QoS, Retain: m.Retain}); err != nil {
			return fmt.Errorf("publish %s: %w", m.Topic, err)
		}
	}
	enough := time.NewTimer(b.patience)
	defer enough.Stop()
	for n := 1; ; n++ {
		select {
		case m := <-heard:
			fmt.Fprintf(b.out, "heard    %s  %s\n", cell(m.Topic), cell(string(m.Payload)))
			b.tell(file, m.Topic, m.Payload)
			if n == b.until {
				return nil
			}
		case <-enough.C:
			return nil
		case <-ctx.Done():
			return protocol.Errorf(protocol.Cancelled, "ended")
		}
	}
}
