package a2a

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/aibridge/aibridge/protocol"
)

// CardPath is the usual path of an agent's card.
const CardPath = "/.well-known/agent-card.json"

// address parses the URL of an agent. fault is the reason if it cannot be one.
func address(text string) (u *url.URL, fault string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, "must be an absolute URL with http or https"
	case u.User != nil:
		return nil, "may not hold a user name or password"
	case u.Fragment != "":
		return nil, "may not have a fragment"
	}
	return u, ""
}

// cardURL is the URL of a card: at the usual path if only a host is named.
func cardURL(u *url.URL) string {
	if u.Path == "" || u.Path == "/" {
		named := *u
		named.Path = CardPath
		return named.String()
	}
	return u.String()
}

// fetch reads the card of an agent, and on MQTT its publisher.
func (s *Service) fetch(ctx context.Context, a *Agent) (card json.RawMessage, publisher protocol.Party, err error) {
	if id, mqtt := busAgent(a.URL); mqtt {
		return s.fetchFromBus(a, id)
	}
	card, err = s.fetchByHTTP(ctx, a)
	return card, protocol.Party{}, err
}

// fetchByHTTP reads the card of an agent, the extended one if that is the one that
// counts.
func (s *Service) fetchByHTTP(ctx context.Context, a *Agent) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, cardWithin)
	defer cancel()
	credential, err := s.credential(a)
	if err != nil {
		return nil, err
	}
	text, err := s.get(ctx, a.URL, credential)
	if err != nil {
		return nil, err
	}
	c, canonical, err := readCard(text)
	if err != nil {
		return nil, protocol.Errorf(protocol.TargetUnavailable, "the card cannot be used: %s", err)
	}
	if _, err := c.usable(false); err != nil {
		return nil, protocol.Errorf(protocol.TargetUnavailable, "the card cannot be used: %s", err)
	}
	if !a.Extended {
		return canonical, nil
	}
	if !c.Capabilities.Extended {
		return nil, protocol.Errorf(protocol.TargetUnavailable, "the card cannot be used: the agent has no extended card")
	}
	way, at, fault := s.way(a, c)
	if fault != nil {
		return nil, fault
	}
	if text, err = way.call(ctx, "GetExtendedAgentCard", naming{Tenant: at.Tenant}); err != nil {
		return nil, protocol.Errorf(protocol.TargetUnavailable, "the extended card cannot be read: %s", line(err.Error(), maxSaid))
	}
	if _, canonical, err = readCard(text); err != nil {
		return nil, protocol.Errorf(protocol.TargetUnavailable, "the extended card cannot be used: %s", err)
	}
	return canonical, nil
}

// fetchFromBus reads the card of an agent on MQTT, and its publisher.
func (s *Service) fetchFromBus(a *Agent, id string) (text json.RawMessage, publisher protocol.Party, err error) {
	bus := s.bus()
	if bus == nil {
		return nil, publisher, noBus()
	}
	card, ok := bus.Card(a.Space, id)
	if !ok {
		return nil, publisher, protocol.Errorf(protocol.TargetUnavailable, "there is no card of %q on MQTT", id)
	}
	c, canonical, err := readCard(card.Text)
	if err == nil {
		_, err = c.usable(true)
	}
	if err != nil {
		return nil, publisher, protocol.Errorf(protocol.TargetUnavailable, "the card cannot be used: %s", err)
	}
	return canonical, card.Publisher, nil
}

// get reads the document at a URL.
func (s *Service) get(ctx context.Context, at, credential string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("A2A-Version", Version)
	r.Header.Set("User-Agent", "aibridge")
	if credential != "" {
		r.Header.Set("Authorization", credential)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, protocol.Errorf(protocol.TargetUnavailable, "the card cannot be read: %s", broken(ctx, err))
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, protocol.Errorf(protocol.TargetUnavailable, "the card cannot be read: the answer has the status %d", answer.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxCard+1))
	if err != nil {
		return nil, protocol.Errorf(protocol.TargetUnavailable, "the card cannot be read: %s", broken(ctx, fmt.Errorf("reading: %w", err)))
	}
	return text, nil
}
