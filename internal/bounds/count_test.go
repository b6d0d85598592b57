package bounds

import "testing"

func TestCount(t *testing.T) {
	for data, want := range map[string][3]int{
		`{}`: {0, 1, 1}, `{"a":1}`: {1, 1, 0}, `[{},{ },{"":0}]`: {4, 3, 2}, `{"{}":"{}"}`: {1, 1, 0}, `[]`: {0, 0, 0}, `[1,[2],{"a":{}}]`: {5, 2, 1},
	} {
		if values, maps, empty := Count([]byte(data)); [3]int{values, maps, empty} != want {
			t.Errorf("%s: %d values, %d maps, %d empty; want %v", data, values, maps, empty, want)
		}
	}
}
