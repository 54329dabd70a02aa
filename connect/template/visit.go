package template

// names gathers the variables of a template.
type names struct {
	known, set map[string]bool
	list       []string
}

func (n *names) add(name string) {
	if !n.known[name] && !n.set[name] {
		n.known[name] = true
		n.list = append(n.list, name)
	}
}

func visitPiece(p piece, n *names) {
	switch p := p.(type) {
	case output:
		visit(p.value, n)
	case set:
		visit(p.value, n)
		n.set[p.name] = true
	case choice:
		for _, b := range p {
			visit(b.when, n)
			for _, inner := range b.body {
				visitPiece(inner, n)
			}
		}
	}
}

func visit(e expr, n *names) {
	switch e := e.(type) {
	case variable:
		n.add(string(e))
	case listOf:
		visitAll(e, n)
	case dictionary:
		for _, pair := range e {
			visitAll(pair[:], n)
		}
	case member:
		visitAll([]expr{e.of, e.key}, n)
	case either:
		visitAll([]expr{e.when, e.then, e.otherwise}, n)
	case negation:
		visit(e.of, n)
	case test:
		visit(e.of, n)
	case operation:
		visitAll([]expr{e.left, e.right}, n)
	case application:
		visitAll(e.args, n)
	}
}

func visitAll(list []expr, n *names) {
	for _, e := range list {
		visit(e, n)
	}
}
