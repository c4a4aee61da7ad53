package coord

import "testing"

// A queue that is never empty stays in its memory, and in order.
func TestQueueReusesItsMemory(t *testing.T) {
	const most = 100
	var q queue
	next, want := 0, 0
	for range 1000 {
		for q.len() < most {
			q.push(item{value: next})
			next++
		}
		for q.len() > most/4 {
			if got := q.pop().value; got != want {
				t.Fatalf("popped %v, want %d", got, want)
			}
			want++
		}
	}
	if cap(q.items) > 4*most {
		t.Errorf("%d places for %d items", cap(q.items), most)
	}
}
