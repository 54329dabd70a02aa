package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/aibridge/aibridge/client"
)

// make has clients of a bridge make the stock.
func (s stock) make(ctx context.Context, b *process) error {
	switch s {
	case skillStock:
		return registerSkills(ctx, b.address, s.many)
	case sessionStock:
		return keepSessions(ctx, b.address, s.many)
	case retainedStock:
		return retain(ctx, b.address, s.many)
	}
	return nil
}

// check fails if a bridge has lost some of the stock, as far as the last thing tells.
func (s stock) check(ctx context.Context, b *process) error {
	switch s {
	case skillStock:
		return findSkills(ctx, b.address, s.many)
	case sessionStock:
		return visit(ctx, b.address, s.many-1, true)
	case retainedStock:
		return findRetained(ctx, b.address, s.many-1)
	}
	return nil
}

// skillsOfAgent is the number of skills that an agent is registered with.
const skillsOfAgent = 100

func registerSkills(ctx context.Context, address netip.AddrPort, many int) error {
	c, err := client.Dial(ctx, "mqtt://"+address.String())
	if err != nil {
		return err
	}
	defer c.Close()
	return eachOf(ctx, many/skillsOfAgent, 8, func(i int) error {
		skills := make([]any, skillsOfAgent)
		for k := range skills {
			skills[k] = stockSkill(i*skillsOfAgent + k)
		}
		_, err := client.Call[map[string]any](ctx, c, "agent.register", map[string]any{
			"agent_id": fmt.Sprintf("agent_%05d", i), "type": "end_agent", "skills": skills,
		})
		return err
	})
}

// stockSkill is a skill of some 600 bytes.
func stockSkill(i int) map[string]any {
	n := strconv.Itoa(i)
	return map[string]any{
		"skill_id": "temperature_converter_" + n, "name": "Temperature converter " + n, "version": "1.4.2", "type": "custom",
		"description": "Converts temperatures between the scales in use, for thermostats that know but one of them.",
		"capabilities": []any{
			map[string]any{"capability_id": "celsius_to_fahrenheit", "name": "Celsius to Fahrenheit"},
			map[string]any{"capability_id": "fahrenheit_to_celsius", "name": "Fahrenheit to Celsius"},
		},
	}
}

func findSkills(ctx context.Context, address netip.AddrPort, many int) error {
	c, err := client.Dial(ctx, "mqtt://"+address.String())
	if err != nil {
		return err
	}
	defer c.Close()
	found, err := client.Call[struct{ Total int }](ctx, c, "skill.discover", map[string]any{})
	if err == nil && found.Total != many {
		err = fmt.Errorf("there are %d of %d skills", found.Total, many)
	}
	return err
}

func keepSessions(ctx context.Context, address netip.AddrPort, many int) error {
	return eachOf(ctx, many, 16, func(i int) error { return visit(ctx, address, i, false) })
}

// visit connects a client whose session is kept, which must be there already or not, and
// has it subscribe and leave.
func visit(ctx context.Context, address netip.AddrPort, i int, known bool) error {
	p, err := dialPlain(ctx, address, keptConnectPacket("bench-kept-"+strconv.Itoa(i)))
	if err != nil {
		return err
	}
	defer p.Close()
	if p.known != known {
		return fmt.Errorf("session %d: it was there: %t", i, p.known)
	}
	return p.ask(subscribePacket(version5, keptTopic(i), 1), packetSuback)
}

// retain publishes retained messages. The last one is acknowledged, and those before it
// have been taken by then.
func retain(ctx context.Context, address netip.AddrPort, many int) error {
	p, err := dialPlain(ctx, address, connectPacket(version5, "bench-retainer", 0))
	if err != nil {
		return err
	}
	defer p.Close()
	out := bufio.NewWriterSize(p, 1<<20)
	payload := make([]byte, keptPayload)
	for i := range many {
		t := publishTemplate(version5, keptTopic(i), 0, nil, payload)
		t.packet[0] |= 1 // RETAIN
		if _, err := out.Write(t.packet); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	last := publishTemplate(version5, "bench/last", 1, nil, payload)
	last.setID(1)
	return p.ask(last.packet, packetPuback)
}

func findRetained(ctx context.Context, address netip.AddrPort, i int) error {
	p, err := dialPlain(ctx, address, connectPacket(version5, "bench-finder", 0))
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.ask(subscribePacket(version5, keptTopic(i), 0), packetSuback); err != nil {
		return err
	}
	return p.expect(packetPublish)
}

// eachOf does something for each number below many, with several at a time, until it
// fails.
func eachOf(ctx context.Context, many, atOnce int, do func(i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < many && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// A plain is a connection of MQTT of which each answer is waited for.
type plain struct {
	net.Conn
	in    *bufio.Reader
	known bool // the bridge had the session

	unwatch func() bool // of the context
}

// dialPlain connects, until the end of ctx.
func dialPlain(ctx context.Context, address netip.AddrPort, connect []byte) (*plain, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address.String())
	if err != nil {
		return nil, err
	}
	_ = conn.(*net.TCPConn).SetLinger(0) // thousands in TIME_WAIT would take all ports
	p := &plain{Conn: conn, in: bufio.NewReaderSize(conn, 512)}
	p.unwatch = context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err := p.connect(connect); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

func (p *plain) connect(packet []byte) error {
	if _, err := p.Write(packet); err != nil {
		return err
	}
	body, err := p.next(packetConnack)
	if err != nil {
		return err
	}
	if len(body) < 2 || body[1] != 0 {
		return fmt.Errorf("CONNECT was answered by % x", body)
	}
	p.known = body[0]&1 != 0
	return nil
}

func (p *plain) Close() error {
	p.unwatch()
	return p.Conn.Close()
}

func (p *plain) ask(packet []byte, answer byte) error {
	if _, err := p.Write(packet); err != nil {
		return err
	}
	return p.expect(answer)
}

func (p *plain) expect(first byte) error {
	_, err := p.next(first)
	return err
}

// next is the body of the next packet, which must be of a type.
func (p *plain) next(want byte) ([]byte, error) {
	first, err := p.in.ReadByte()
	if err != nil {
		return nil, err
	}
	length, err := binary.ReadUvarint(p.in) // as MQTT's lengths are written
	if err != nil || length > largestPacket {
		return nil, errors.New("the bridge sent a malformed length")
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(p.in, body); err != nil {
		return nil, err
	}
	if first&0xF0 != want {
		return nil, fmt.Errorf("the bridge sent %02x % x", first, body[:min(len(body), 16)])
	}
	return body, nil
}
