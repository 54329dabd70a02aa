package servers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/protocol"
)

// DeviceSettings are the settings of devices that are MCP servers.
type DeviceSettings struct {
	On      bool          `yaml:"on" doc:"devices that announce themselves as MCP servers over MQTT are used as such, under approval"`
	Approve string        `yaml:"approve" doc:"each: every tool, prompt and resource waits for mcp.server.approve; first: the declarations of a device that is first seen are approved; each by default"`
	Risk    string        `yaml:"risk" doc:"ask: a person has to agree to every call of their tools"`
	Timeout time.Duration `yaml:"timeout" doc:"time that a call may take; 60s by default"`
}

// Check returns the fault of the settings.
func (s *DeviceSettings) Check() error {
	switch {
	case s.Approve != "" && s.Approve != ApproveFirst && s.Approve != ApproveEach:
		return fmt.Errorf("approve: %q is neither %s nor %s", s.Approve, ApproveEach, ApproveFirst)
	case s.Risk != "" && s.Risk != riskAsk:
		return fmt.Errorf("risk: %q is not %s", s.Risk, riskAsk)
	case s.Timeout < 0 || s.Timeout > maxTimeout:
		return errors.New("timeout: must be between 0 and 10m")
	}
	return nil
}

// Bounds of the devices that are servers at the same time.
const (
	ownerDevices = 64 // of one party
	spaceDevices = 1024
)

// The time within which a device must answer a ping, and the version of MCP for
// devices: that of the specification of MCP over MQTT.
const (
	pingTimeout   = 10 * time.Second
	deviceVersion = "2025-03-26"
)

// A Device is a server that has announced itself.
type Device struct {
	Name    string         // of its tools, mcp.{name}.{tool}
	Owner   protocol.Party // owner of the device, which is used in the owner's space alone
	Way     sdk.Transport  // connected for each session, one at a time
	Clients func() []string
}

// An attached is a device between Attach and detach.
type attached struct {
	Device
	detached context.Context
	detach   context.CancelFunc
}

// deviceKey is the key of a device. No name of the configuration has a slash.
func deviceKey(space protocol.SpaceID, name string) string { return string(space) + "/" + name }

// Attach adds a device as a server until detach is called. The error is
// InvalidParameter for an invalid name, AlreadyExists for the name of a configured
// server or of an attached or approved device of another principal, and LimitReached
// for too many devices. It does not block.
func (s *Service) Attach(d Device) (detach func(), err error) {
	if !nameForm.MatchString(d.Name) {
		return nil, protocol.InvalidParam("name", "must have up to 32 lower-case letters, digits, - and _")
	}
	l := newConnection(s, &Config{Name: d.Name, Approve: s.opts.Devices.Approve, Risk: s.opts.Devices.Risk, Timeout: s.opts.Devices.Timeout})
	if l.config.Approve == "" {
		l.config.Approve = ApproveEach
	}
	l.key = deviceKey(d.Owner.Space, d.Name)
	l.device = &attached{Device: d}
	l.device.detached, l.device.detach = context.WithCancel(context.Background())
	if err := s.admit(l); err != nil {
		l.device.detach()
		return nil, err
	}
	s.changed()
	return func() { s.dismiss(l) }, nil
}

// admit adds the connection of a device, and starts it.
func (s *Service) admit(l *connection) error {
	owner := l.device.Owner
	approved, _, known := s.opts.Table.Get(l.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return protocol.Errorf(protocol.ShuttingDown, "the bridge is shutting down")
	case s.connections[l.config.Name] != nil, s.connections[l.key] != nil, known && approved.Owner != owner:
		return protocol.Errorf(protocol.AlreadyExists, "the name %q is taken", l.config.Name).With("server", l.config.Name)
	case s.crowd[owner.String()] >= ownerDevices, s.crowd[string(owner.Space)] >= spaceDevices:
		return protocol.Errorf(protocol.LimitReached, "at most %d devices of one principal and %d of a space are MCP servers", ownerDevices, spaceDevices)
	}
	s.connections[l.key] = l
	s.count(owner, 1)
	if s.running != nil {
		until := s.running
		s.working.Go(func() { l.run(until) })
	}
	return nil
}

// dismiss ends and removes the connection of a device.
func (s *Service) dismiss(l *connection) {
	l.device.detach()
	s.mu.Lock()
	if s.connections[l.key] == l {
		delete(s.connections, l.key)
		s.count(l.device.Owner, -1)
	}
	s.mu.Unlock()
	s.changed()
}

// count adds n to the numbers of devices of an owner and of its space. The caller holds
// s.mu.
func (s *Service) count(owner protocol.Party, n int) {
	for _, of := range []string{owner.String(), string(owner.Space)} {
		if s.crowd[of] += n; s.crowd[of] <= 0 {
			delete(s.crowd, of)
		}
	}
}

// owner is the owner of a device, the zero value for a configured server.
func (l *connection) owner() protocol.Party {
	if l.device == nil {
		return protocol.Party{}
	}
	return l.device.Owner
}

// approved is the record of approvals of the server, nil for none.
func (l *connection) approved() *Approved {
	approved, _, ok := l.service.opts.Table.Get(l.key)
	if !ok || approved.Owner != l.owner() {
		return nil
	}
	return approved
}

// of is the view of a device, nil for a configured server.
func (l *connection) of() *DeviceView {
	if l.device == nil {
		return nil
	}
	return &DeviceView{Owner: l.device.Owner, Clients: l.device.Clients()}
}

// version holds the MCP version to propose to the server; nil proposes the latest.
func (l *connection) version() *sdk.ClientSessionOptions {
	if l.device == nil {
		return nil
	}
	return &sdk.ClientSessionOptions{ProtocolVersion: deviceVersion}
}

// alive reports whether the device answers a ping, be it by an error for an unknown
// method.
func (l *connection) alive(ctx context.Context, session *sdk.ClientSession) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	err := session.Ping(ctx, nil)
	refused := new(jsonrpc.Error)
	return err == nil || errors.As(err, &refused) && !errors.Is(err, sdk.ErrConnectionClosed)
}
