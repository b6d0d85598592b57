package bounds

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// slowNumbers take long to decode as quantities.
var slowNumbers = []string{
	"1e-1000", "1E-1000000000", "-1.5e-9999", "+.1e-00001000", " 1e-1000\n", "1e3294967296", "9e2147483648",
	"123456789012345678e1000", "0.000000000000000001e+1000", strings.Repeat("1", 2001), strings.Repeat("1.", 1001) + "Ki", "1" + strings.Repeat("0", 2000) + "e1",
}

// quickNumbers do not, or are none.
var quickNumbers = []string{
	"", "1", "1e3", "1e-999", "1.5e+999", "100m", "16Gi", "1e12345", "7e123456789", "5e0123456789", "1e1234567890", "1e-0001", "12345678901234567e1000", strings.Repeat("1", 2000),
	"e-1000", "v1e-1000", "1e-1000-a", "1e-1000.1", "us-east-1e-1000", "foo-1e-1000", "1e--", "1ee", "sha256:1e-1000", "0x1e-1000", "2026-11-22", "10.0.0.1",
	"3f2504e0-4f89-11d3-9a0c-0305e82c3301", "1 e-1000", strings.Repeat("1", 2001) + "g", "1Ki-1000", "[1e-1000", "{}", "é1e-1000",
}

func TestText(t *testing.T) {
	for _, text := range slowNumbers {
		if text == "1e-1000" { // and the other ways to write it
			for _, other := range []string{`{"limits":{"b":1e-1000}}`, ` {"value" : ["1\u0065-1000"]}`, `{"li\u006dits":{"b":"1\u0065-1000"}}`} {
				checkMessage(t, Text(other), `"1e-1000", has an exponent of more than 3 digits`)
			}
		}
		checkMessage(t, Text(text), "write it with fewer")
	}
	for _, text := range quickNumbers {
		if text != "[1e-1000" { // it is left to upstream, but is JSON as far as it goes
			checkMessage(t, Text(text), "")
		}
	}
}

// TestReadingQuicklyIsQuick checks that upstream reads the other numbers. It takes hours for the slow ones.
func TestReadingQuicklyIsQuick(t *testing.T) {
	for _, text := range quickNumbers {
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = resource.ParseQuantity(strings.TrimSpace(text))
		}()
		select {
		case <-read:
		case <-time.After(time.Minute):
			t.Fatalf("upstream has not read %.40q as a quantity in a minute, and Text lets it pass", text)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, text := range append(slowNumbers, quickNumbers...) {
		message := ""
		if Text(text) != nil {
			message = "write it with fewer"
		}
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct{ mediaType, data string }{
			{runtime.ContentTypeJSON, fmt.Sprintf(`{"a":[{"b":"c\"d","limits": {"e":"f", "g" : %s}}]}`, quoted)},
			{runtime.ContentTypeJSON, fmt.Sprintf(`{"a":{"divisor"%s:"%s"}}`, strings.Repeat(" ", 100), escaped(text))},
			{runtime.ContentTypeYAML, fmt.Sprintf("divisor: %s\n", quoted)},
			{runtime.ContentTypeYAML, fmt.Sprintf("requests:\n  b: \"%s\"\n", escaped(text))},
			{runtime.ContentTypeProtobuf, fmt.Sprintf("k8s\x00\x0a%s%s", binaryLength(text), text)},
		} {
			t.Run(fmt.Sprintf("%.20s in %s", text, tc.mediaType), func(t *testing.T) {
				_, err := Numbers(tc.mediaType, []byte(tc.data))
				checkMessage(t, err, message)
			})
		}
	}
	for _, tc := range []struct{ mediaType, data string }{
		{runtime.ContentTypeJSON, `{"hard":{"cpu":-1e-1000}}`},
		{runtime.ContentTypeJSON, `{"capacity":{"cpu":1e-1000`},
		{runtime.ContentTypeYAML, "divisor: '1e-1000'\n"},                    // without quotes it is 0
		{runtime.ContentTypeYAML, "\xfe\xff" + wide("divisor: '1e-1000'\n")}, // UTF-16
		{runtime.ContentTypeYAML, "divisor: !!binary MWUtMTAwMA==\n"},
		{runtime.ContentTypeYAML, "divisor: \"1e-\\\n  1000\"\n"},
		{runtime.ContentTypeYAML, "divisor: \"\\x31e-1000\"\n"},
	} {
		_, err := Numbers(tc.mediaType, []byte(tc.data))
		checkMessage(t, err, "1e-1000")
	}
}

// TestJSONInStrings checks that strings of JSON in a string are not read: with a thousand levels
// 3 MB would take gigabytes.
func TestJSONInStrings(t *testing.T) {
	data := `{"limits":"1e-1000"}`
	for _, message := range []string{"1e-1000", "1e-1000", ""} {
		_, err := Numbers(runtime.ContentTypeJSON, []byte(data))
		checkMessage(t, err, message)
		inner, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		data = `{"metadata":{"annotations":{"a":` + string(inner) + `}}}`
	}
}

// wide returns text in UTF-16.
func wide(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		b.WriteByte(0)
		b.WriteByte(c)
	}
	return b.String()
}

// binaryLength returns the length of a text as protobuf has it.
func binaryLength(text string) string { return string(binary.AppendUvarint(nil, uint64(len(text)))) }

// TestOtherTexts checks that what is no quantity in any type may be any number.
func TestOtherTexts(t *testing.T) {
	for mediaType, data := range map[string]string{
		runtime.ContentTypeJSON: `{"metadata":{"name":"1e-1000","labels":{"a":"1e-1000"}},"data":{"a":"` + strings.Repeat("1", 3000) + `","b":"{\"rsa\": ` + strings.Repeat("7", 3000) + `}"},` +
			`"status":{"containerStatuses":[{"state":{"terminated":{"message":"1e-1000","reason":1e-1000}}}]},"limits":{},"args":["1e-1000"]}`,
		runtime.ContentTypeYAML:     "limits: {cpu: '1'}\nmessage: \"1e-1000\"\nargs: ['1e-1000']\n",
		runtime.ContentTypeProtobuf: "k8s\x00\x12\x071e-1000",
	} {
		_, err := Numbers(mediaType, []byte(data))
		checkMessage(t, err, "")
	}
}

func TestQuantityNames(t *testing.T) {
	for _, name := range []string{"limits", "requests", "hard", "divisor", "sizeLimit", "averageValue", "targetaveragevalue", "overhead", "quota", "maxLimitRequestRatio", "tolerance"} {
		if !isQuantity(name) {
			t.Errorf("%s may be a quantity", name)
		}
	}
	for _, name := range []string{"", "message", "name", "labels", "annotations", "data", "stringData", "image", "args", "spec", "resources", "containers"} {
		if isQuantity(name) {
			t.Errorf("%s is no quantity", name)
		}
	}
}

// TestNumbersAreFound checks that decoded objects are looked at if they may have quantities
// with long exponents, and others are not.
func TestNumbersAreFound(t *testing.T) {
	for data, want := range map[string]bool{
		`{"cpu":"1e1000"}`: true, `{"cpu":1E+1000}`: true, `{"cpu":"\u0031e1000"}`: true, `{"a":"1.e1000"}`: true,
		`{"cpu":"1e100"}`: false, `{"a":"\u003c\u0026\u2028"}`: false, `{"a":"e1000"}`: false, `{"a":"3e","b":"1000"}`: false, `{"a":"1e`: false, `{"a":"\u`: false,
	} {
		for _, mediaType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
			if found, err := Numbers(mediaType, []byte(data)); found != want || err != nil {
				t.Errorf("%s, %s: %v, %v", mediaType, data, found, err)
			}
		}
	}
}

// TestNumbersInMessages checks that the time for strings in strings is bounded: each of
// these is looked at, but not on all levels.
func TestNumbersInMessages(t *testing.T) {
	long := []byte("{1e1000" + strings.Repeat(" ", 10_000))
	for range 1000 {
		long = append([]byte{'{', 0x0a, byte(len(long)&0x7f | 0x80), byte(len(long)>>7&0x7f | 0x80), byte(len(long) >> 14)}, long...)
	}
	_, err := Numbers(runtime.ContentTypeProtobuf, long)
	checkMessage(t, err, "send JSON")
	for _, annotation := range []string{`[{"type":"Resource","resource":{"targetAverageValue":"1e-1000"}}]`, `[{"resource":{"TARGETAVERAGEVALUE":"1e-1000"}}]`} {
		hpa := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"autoscaling.alpha.kubernetes.io/metrics": annotation}}}
		data, err := hpa.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		_, err = Numbers(runtime.ContentTypeProtobuf, data)
		checkMessage(t, err, "1e-1000")
	}
}

func TestQuantities(t *testing.T) {
	limited := func(text string) *corev1.Pod {
		limits := corev1.ResourceList{"cpu": resource.MustParse(text)}
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: limits}}}}}
	}
	for text, message := range map[string]string{
		"1": "", "1e999": "", "1e-999": "", "16Gi": "", "1e1002": `a quantity, "1e1002"`, "5e1000000000": "50e999999999", "-1e1002": "-1e1002",
	} {
		checkMessage(t, Quantities(limited(text)), message)
		checkMessage(t, Value(limited(text)), message)
	}
	divisor := &corev1.ResourceFieldSelector{Divisor: resource.MustParse("1e1000000000")}
	checkMessage(t, Quantities(&corev1.EnvVarSource{ResourceFieldRef: divisor}), "10e999999999")
	checkMessage(t, Quantities(map[string]any{"a": strings.Repeat("a", math.MaxInt16), "b": make([]any, 20_001), "c": "1e1000"}), "")
	checkMessage(t, Quantities(map[string]any{"a": []any{"1e-1000"}}), "")
	checkMessage(t, Texts(map[string]any{"a": []any{"1e-1000"}}), "1e-1000")
	checkMessage(t, Texts(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "1e-1000"}}}}), "1e-1000")
	checkMessage(t, Quantities(&runtime.RawExtension{Raw: []byte(`{"limits":{"cpu":"1e-1000"}}`)}), "1e-1000")
}

// TestAnswer checks what of an answer takes long to decode or to compare, and what is too much.
func TestAnswer(t *testing.T) {
	status := func(used string) string {
		return `{"metadata":{"name":"1e9999"},"status":{"quota":{"used":{` + used + `}}}}`
	}
	message := func(text string) string { return "k8s\x00\x0a" + binaryLength(text) + text }
	for data, message := range map[string]string{
		status(`"a":"1","b":2,"c":null,"d":"1e-999"`):          "",
		status(`"a":"1e-1000"`):                                `the number of "a", "1e-1000"`,
		status(`"a":"1\u0065-1000"`):                           `the number of "a", "1e-1000"`,
		status(`"a":1e1000`):                                   `the number of "a", "1e1000"`,
		status(`"a":"1","b":2,"c":null,"d":"1e-999","e":0`):    "more than 4 quantities",
		status(`"a":null,"b":null,"c":null,"d":null,"e":null`): "more than 4 quantities",
		`{"us\u0065d":{"a":"1e9999"}}`:                         "1e9999",
		"not found":                                            "",
		message("1"):                                           "",
		message("1e-1000"):                                     "1e-1000",
		message("1e1000"):                                      "1e1000",
		message("1") + strings.Repeat("\x0a\x011", 4):          "more than 4 quantities",
		message("one") + strings.Repeat("\x0a\x01a", 9):        "",
	} {
		checkMessage(t, Answer([]byte(data), 4), message)
	}
}

// BenchmarkNumbers looks for numbers in 100 kB of what clients send.
func BenchmarkNumbers(b *testing.B) {
	element := `{"name":"container-of-a-pod","image":"registry.example.com/team/image:v1.2.3","args":["--verbose","--port=8080"],"ports":[{"containerPort":8080,"protocol":"TCP"}],` +
		`"env":[{"name":"KEY","value":"a value of some length"}]}`
	data := []byte(list(425, element))
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if found, err := Numbers(runtime.ContentTypeJSON, data); found || err != nil {
			b.Fatal(found, err)
		}
	}
}
