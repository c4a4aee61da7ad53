package harness

import "testing"

func TestStatusBytes(t *testing.T) {
	const status = "Name:\tsluice\nVmHWM:\t   20484 kB\nVmRSS:\t   17000 kB\n"
	if most, now, none := statusBytes(status, "VmHWM"), statusBytes(status, "VmRSS"), statusBytes(status, "VmSwap"); most != 20484<<10 || now != 17000<<10 || none != 0 {
		t.Error(most, now, none)
	}
}
