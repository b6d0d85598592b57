package translate

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestChangedGates(t *testing.T) {
	with := func(gates []string, conditions ...corev1.PodCondition) *corev1.Pod {
		pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: conditions}}
		for _, gate := range gates {
			pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: corev1.PodConditionType(gate)})
		}
		return pod
	}
	gate := func(is corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: "example.com/gate", Status: is, Reason: "r"}
	}
	gates := []string{"example.com/gate"}
	for name, tc := range map[string]struct {
		pod, host *corev1.Pod
		want      string
	}{
		"none":          {with(nil, gate("True")), with(nil), `null`},
		"not set":       {with(gates), with(nil), `null`},
		"the same":      {with(gates, gate("True")), with(nil, gate("True")), `null`},
		"set":           {with(gates, gate("True")), with(nil), `[{"lastTransitionTime":null,"status":"True","type":"example.com/gate"}]`},
		"changed":       {with(gates, gate("False")), with(nil, gate("True")), `[{"lastTransitionTime":null,"status":"False","type":"example.com/gate"}]`},
		"set no more":   {with(gates), with(nil, gate("True")), `[{"$patch":"delete","type":"example.com/gate"}]`},
		"none there is": {with(gates, gate("x")), with(nil), `[{"lastTransitionTime":null,"status":"Unknown","type":"example.com/gate"}]`},
		"still none":    {with(gates, gate("x")), with(nil, gate("Unknown")), `null`},
		"another's own": {with(gates, gate("True"), corev1.PodCondition{Type: corev1.PodReady, Status: "True"}), with(nil, gate("True")), `null`},
	} {
		got, err := json.Marshal(ChangedGates(tc.pod, tc.host))
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, tc.want)
		}
	}
}
