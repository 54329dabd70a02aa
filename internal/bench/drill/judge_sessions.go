package drill

// codeTakenOver is the reason code of DISCONNECT for a session that another connection
// has taken over.
const codeTakenOver = "0x8E"

// codeImpatient replaces the reason code of a connection that the client gave up.
const codeImpatient = "impatient"

// connections checks the presence of sessions after reconnections, and moves.
func (j *judge) connections() {
	for name, c := range j.clients {
		for n, i := range c.opened {
			if e := j.history[i]; n > 0 && e.Kept && !e.Present {
				j.at(i).tally.SessionsLost++
				j.breach(KeptSessions, i, "%s connected to %s and its session was gone", name, e.Node)
			}
		}
		for _, i := range c.moved {
			code := j.history[i].Code
			if code == codeImpatient {
				continue // a client that left by itself cannot get a DISCONNECT
			}
			j.at(i).tally.Moves++
			if code != codeTakenOver {
				j.breach(OneOwner, i, "%s moved to %s, and its old connection ended with %q instead of %s", name, j.history[i].Node, code, codeTakenOver)
			}
		}
	}
}

// wills checks that each will that was due came once and no other came.
func (j *judge) wills() {
	due, got := make(map[string]int), make(map[string]int)
	var set []int
	for i, e := range j.history {
		switch e.Kind {
		case WillSet:
			set = append(set, i)
		case WillDue:
			due[e.ID] = i
			j.at(i).tally.WillsDue++
		case WillGot:
			got[e.ID]++
		}
	}
	for _, i := range set {
		id := j.history[i].ID
		t := &j.at(i).tally
		_, isDue := due[id]
		once := WillsOfClean
		if j.history[i].Kept {
			once = WillsOnce
		}
		switch n := got[id]; {
		case isDue && n == 0:
			t.WillsMissing++
			j.breach(once, i, "the will %s was not published", id)
		case isDue && n > 1:
			t.WillsUnwanted += n - 1
			j.breach(once, i, "the will %s was published %d times", id, n)
		case !isDue && n > 0:
			t.WillsUnwanted += n
			j.breach(WillsWithheld, i, "the will %s was published although its client came back or never left", id)
		}
	}
}
