package drill

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// inflict injects the fault of a round, for the time of the round, and ends it. It
// calls began with the name of the affected node.
func (c *cluster) inflict(ctx context.Context, r Round, began func(node string)) error {
	switch r.Fault {
	case Kill, Pause, Partition:
		b := c.target(ctx, r)
		began(b.name())
		return c.breakBridge(ctx, r, b)
	case Disk, Majority:
		if c.options.Formed {
			return c.breakBridges(ctx, r, began)
		}
		return c.breakNATS(ctx, r, began)
	case Leader:
		return c.breakNATS(ctx, r, began)
	case Rolling:
		began("all bridges")
		return c.roll(ctx, r)
	}
	began("")
	return nil
}

// target is the bridge that a round is about: mostly one that serves.
func (c *cluster) target(ctx context.Context, r Round) *bridgeNode {
	candidates := c.bridges
	if serving := c.serving(ctx); r.Serves && len(serving) > 0 {
		candidates = serving
	}
	return candidates[r.Target%len(candidates)]
}

func (c *cluster) breakBridge(ctx context.Context, r Round, b *bridgeNode) error {
	switch r.Fault {
	case Kill:
		b.kill()
		pause(ctx, r.Hold)
		return b.start()
	case Pause:
		b.freeze()
		pause(ctx, r.Hold)
		b.thaw()
	case Partition:
		state := hangs
		if r.Abrupt {
			state = resets
		}
		b.setLinks(state)
		pause(ctx, r.Hold)
		b.setLinks(carries)
	}
	return nil
}

func (b *bridgeNode) setLinks(state linkState) {
	for _, l := range b.links {
		l.set(state)
	}
}

func (c *cluster) breakNATS(ctx context.Context, r Round, began func(string)) error {
	leader := 0
	name := leaderOf(ctx, c.natsURLs())
	for i, n := range c.nats {
		if n.Name == name {
			leader = i
		}
	}
	var broken []*natsNode
	switch r.Fault {
	case Leader:
		broken = append(broken, c.nats[leader])
	case Disk:
		broken = append(broken, c.nats[r.Target%len(c.nats)])
	case Majority:
		for i := range len(c.nats) - 1 {
			broken = append(broken, c.nats[(leader+i)%len(c.nats)])
		}
	}
	began(names(broken))
	for _, n := range broken {
		n.kill()
	}
	if r.Fault == Disk {
		if err := os.RemoveAll(filepath.Join(broken[0].Dir, "jetstream")); err != nil {
			return err
		}
	}
	pause(ctx, r.Hold)
	for _, n := range broken {
		if err := n.start(); err != nil {
			return err
		}
	}
	return nil
}

// breakBridges breaks the NATS servers that are in bridges, and these with them.
func (c *cluster) breakBridges(ctx context.Context, r Round, began func(string)) error {
	var broken []*bridgeNode
	for i := range len(c.bridges) {
		broken = append(broken, c.bridges[(r.Target+i)%len(c.bridges)])
	}
	if r.Fault == Disk {
		broken = broken[:1]
	} else {
		broken = broken[:len(broken)-1]
	}
	began(names(broken))
	for _, b := range broken {
		b.kill()
	}
	if r.Fault == Disk {
		if err := broken[0].wipe(); err != nil {
			return err
		}
	}
	pause(ctx, r.Hold)
	for _, b := range broken {
		if err := b.start(); err != nil {
			return err
		}
	}
	return nil
}

// wipe gives a bridge an empty disk; its log stays.
func (b *bridgeNode) wipe() error {
	entries, err := os.ReadDir(b.data)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(b.data, e.Name())
		if path == b.log() {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

func names[N interface{ called() string }](nodes []N) string {
	var list []string
	for _, n := range nodes {
		list = append(list, n.called())
	}
	return strings.Join(list, ", ")
}

func (c *cluster) natsURLs() string {
	var urls []string
	for _, n := range c.nats {
		urls = append(urls, fmt.Sprintf("nats://%s:%d", n.Host, n.Port))
	}
	return strings.Join(urls, ",")
}

// roll restarts one bridge after the other, as in the installation of a new version. If
// there is another version, it installs that, and both work side by side for a while.
func (c *cluster) roll(ctx context.Context, r Round) error {
	for _, b := range c.bridges {
		b.terminate()
		b.change(c.options)
		if err := b.start(); err != nil {
			return err
		}
		if err := c.until(ctx, "all bridges are up again", c.bridgesHealthy); err != nil {
			return fmt.Errorf("%w; %s said: %s", err, b.called(), b.lastWords())
		}
		if len(c.options.Earlier) > 0 {
			pause(ctx, r.Hold)
		}
	}
	return nil
}

// change puts the other version of the program in place, if there is one.
func (b *bridgeNode) change(o *Options) {
	if len(o.Earlier) == 0 {
		return
	}
	from, to := o.Bridge, o.Earlier
	if b.earlier {
		from, to = to, from
	}
	b.argv, b.earlier = append(slices.Clone(to), b.argv[len(from):]...), !b.earlier
}

// whole reports whether everything runs again.
func (c *cluster) whole(ctx context.Context) error {
	if err := c.natsHealthy(ctx); err != nil {
		return err
	}
	return c.bridgesHealthy(ctx)
}
