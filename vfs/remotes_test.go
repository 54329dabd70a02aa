package vfs_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/vfstest"
)

// A far is a VFS somewhere else.
type far struct {
	*vfstest.Memory
	down   *bool
	closed bool
}

func (f *far) Usage(context.Context) (vfs.Usage, error) {
	if *f.down {
		return vfs.Usage{}, errors.New("dial tcp 10.0.0.7:443: connection refused")
	}
	return vfs.Usage{Used: 7, Total: 70}, nil
}

func (f *far) Close() error {
	f.closed = true
	return nil
}

// reversed seals by writing backwards, for one purpose.
type reversed struct{}

func (reversed) Seal(plain []byte, purpose string) ([]byte, error) {
	sealed := slices.Clone(plain)
	slices.Reverse(sealed)
	return append([]byte(purpose+"\x00"), sealed...), nil
}

func (reversed) Open(sealed []byte, purpose string) ([]byte, error) {
	plain, ok := bytes.CutPrefix(sealed, []byte(purpose+"\x00"))
	if !ok {
		return nil, errors.New("sealed for something else")
	}
	plain = slices.Clone(plain)
	slices.Reverse(plain)
	return plain, nil
}

// A mounts is a service with VFSs that can be registered.
type mounts struct {
	*vfs.Service
	remotes     *recordstest.Memory[vfs.Remote]
	far         []*far   // as they were dialled
	credentials []string // that they were dialled with
	down        bool     // whether they cannot be reached
}

// open counts the connections that were not closed.
func (m *mounts) open() (n int) {
	for _, f := range m.far {
		if !f.closed {
			n++
		}
	}
	return n
}

func newMounts(t *testing.T, change ...func(*vfs.Options)) *mounts {
	t.Helper()
	m := &mounts{remotes: recordstest.New[vfs.Remote]()}
	o := vfs.Options{Store: open(t).Store, Groups: recordstest.New[vfs.Group](), Remotes: m.remotes, Sealer: reversed{},
		Dial: func(_ vfs.Remote, credential string) (vfs.Files, error) {
			f := &far{Memory: vfstest.NewMemory(), down: &m.down}
			m.far, m.credentials = append(m.far, f), append(m.credentials, credential)
			return f, nil
		}}
	for _, f := range change {
		f(&o)
	}
	m.Service = vfs.New(o)
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	return m
}

var (
	root  = &protocol.Principal{Kind: protocol.KindOperator, ID: "root", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleAdministrator}}
	alice = &protocol.Principal{Kind: protocol.KindAgent, ID: "alice", Space: protocol.DefaultSpace}
	bob   = &protocol.Principal{Kind: protocol.KindAgent, ID: "bob", Space: protocol.DefaultSpace}
	eve   = &protocol.Principal{Kind: protocol.KindOperator, ID: "eve", Space: "elsewhere", Roles: []string{protocol.RoleOperator}}
)

func (m *mounts) register(t *testing.T, who *protocol.Principal, p vfs.RegisterParams) (vfs.StatusResult, error) {
	t.Helper()
	return m.Register(t.Context(), &commands.Call{Principal: who}, p)
}

var aliceMounts = vfs.RegisterParams{ID: "nas", URL: "https://nas.example/vfs", Group: "photos", Credential: "secret-of-nas"}

// A group whose VFS is registered is kept there, with the credential that was
// given, which is nowhere to be read; without the VFS it is here again.
func TestAGroupIsKeptWhereItsVFSIsRegistered(t *testing.T) {
	m := newMounts(t)
	if got, err := m.register(t, alice, aliceMounts); err != nil || got.Status != "online" || got.Used != 7 {
		t.Fatalf("registered: %+v, %v", got, err)
	}
	files, err := m.For(t.Context(), alice, "photos", true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := files.Put(t.Context(), "photos", "a", strings.NewReader("a cat"), vfs.PutOptions{Size: -1}); err != nil {
		t.Fatal(err)
	}
	if f, err := m.far[len(m.far)-1].Stat(t.Context(), "photos", "a"); err != nil || f.Size != 5 || m.credentials[0] != "secret-of-nas" {
		t.Errorf("over there: %+v, %v, with %q", f, err, m.credentials)
	}
	for _, r := range m.remotes.All() {
		if bytes.Contains(r.Credential, []byte("secret-of-nas")) {
			t.Error("the credential is kept as it is")
		}
	}

	again := aliceMounts
	again.URL = "https://other.example/vfs"
	if _, err := m.register(t, alice, again); err != nil || m.open() != 1 {
		t.Errorf("registered anew: %v, %d connections", err, m.open())
	}
	if _, err := m.Unregister(t.Context(), &commands.Call{Principal: alice}, vfs.UnregisterParams{ID: "nas"}); err != nil || m.open() != 0 {
		t.Errorf("unregistered: %v, %d connections", err, m.open())
	}
	if files, err = m.For(t.Context(), alice, "photos", true); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Stat(t.Context(), "photos", "a"); protocol.CodeOf(err) != protocol.FileNotFound {
		t.Errorf("without the VFS: %v", err)
	}
}

func TestAVFSThatMustNotBeRegisteredIsRefused(t *testing.T) {
	m := newMounts(t)
	if _, err := m.register(t, alice, aliceMounts); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		who    *protocol.Principal
		change func(*vfs.RegisterParams)
		want   protocol.Code
	}{
		"no URL":                  {alice, func(p *vfs.RegisterParams) { p.URL = "file:///etc" }, protocol.InvalidParameter},
		"a password in the URL":   {alice, func(p *vfs.RegisterParams) { p.URL = "https://u:p@nas.example/vfs" }, protocol.InvalidParameter},
		"a query":                 {alice, func(p *vfs.RegisterParams) { p.URL += "?a=b" }, protocol.InvalidParameter},
		"the bridge's own":        {root, func(p *vfs.RegisterParams) { p.ID = vfs.LocalID }, protocol.InvalidParameter},
		"all groups":              {alice, func(p *vfs.RegisterParams) { p.Group = "" }, protocol.VFSPermission},
		"the mirror of Caps":      {alice, func(p *vfs.RegisterParams) { p.Group = vfs.MirrorGroup }, protocol.VFSPermission},
		"a group of another":      {bob, func(p *vfs.RegisterParams) { p.ID = "bobs" }, protocol.VFSPermission},
		"a Cap's without part":    {bob, func(p *vfs.RegisterParams) { p.ID, p.Group = "bobs", "home:g" }, protocol.VFSPermission},
		"the name of another's":   {bob, func(p *vfs.RegisterParams) { p.Group = "bobs" }, protocol.AlreadyExists},
		"an administrator may":    {root, func(p *vfs.RegisterParams) { p.ID, p.Group = "all", "" }, ""},
		"the same name elsewhere": {eve, func(*vfs.RegisterParams) {}, ""},
	} {
		p := aliceMounts
		test.change(&p)
		if _, err := m.register(t, test.who, p); err == nil && test.want != "" || err != nil && protocol.CodeOf(err) != test.want {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	without := newMounts(t, func(o *vfs.Options) { o.Sealer = nil })
	if _, err := without.register(t, alice, aliceMounts); protocol.CodeOf(err) != protocol.InvalidState || without.remotes.Len() != 0 {
		t.Errorf("without a sealer: %v", err)
	}
}

// Who neither registered a VFS nor manages the space learns whether it can be
// reached, and neither where it is nor why not; another space learns nothing.
func TestWhereAVFSIsIsNotTold(t *testing.T) {
	m := newMounts(t)
	if _, err := m.register(t, alice, aliceMounts); err != nil {
		t.Fatal(err)
	}
	m.down = true
	status := func(who *protocol.Principal) (vfs.StatusResult, error) {
		return m.Status(t.Context(), &commands.Call{Principal: who}, vfs.StatusParams{ID: "nas"})
	}
	for _, who := range []*protocol.Principal{alice, root} {
		if got, err := status(who); err != nil || got.Status != "offline" || got.URL != aliceMounts.URL || got.Reason == "" {
			t.Errorf("%s: %+v, %v", who.ID, got, err)
		}
	}
	if got, err := status(bob); err != nil || got.Status != "offline" || got.URL != "" || got.Reason != "" || got.Total != 0 {
		t.Errorf("bob: %+v, %v", got, err)
	}
	if _, err := status(eve); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("another space: %v", err)
	}
	health, err := m.Health(t.Context(), &commands.Call{Principal: bob}, vfs.HealthParams{})
	if err != nil || health.ID != vfs.LocalID || len(health.Others) != 1 || health.Others[0].URL != "" {
		t.Errorf("health: %+v, %v", health, err)
	}
	for who, want := range map[*protocol.Principal]protocol.Code{bob: protocol.VFSPermission, eve: protocol.NotFound} {
		if _, err := m.Unregister(t.Context(), &commands.Call{Principal: who}, vfs.UnregisterParams{ID: "nas"}); protocol.CodeOf(err) != want {
			t.Errorf("%s unregisters it: %v, want %s", who.ID, err, want)
		}
	}
}

// A credential that was sealed for one address is sent to no other.
func TestACredentialIsOnlyForItsVFS(t *testing.T) {
	m := newMounts(t)
	if _, err := m.register(t, alice, aliceMounts); err != nil {
		t.Fatal(err)
	}
	for key, r := range m.remotes.All() {
		moved := *r
		moved.URL = "https://thief.example/vfs"
		if _, err := m.remotes.Put(t.Context(), key, &moved); err != nil {
			t.Fatal(err)
		}
	}
	dialled := len(m.far)
	if _, err := m.For(t.Context(), alice, "photos", true); protocol.CodeOf(err) != protocol.VFSUnavailable || len(m.far) != dialled {
		t.Errorf("%v, %d dialled", err, len(m.far))
	}
}
