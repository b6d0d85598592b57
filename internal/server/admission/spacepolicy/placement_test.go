package spacepolicy

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/resource"
	"k8s.io/kubernetes/pkg/apis/storage"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

const header = "apiVersion: config.tenantry.io/v1alpha1\nkind: SpacePolicyConfiguration\n"

func selecting(labels ...string) core.PodSpec {
	spec := core.PodSpec{NodeSelector: map[string]string{}}
	for _, label := range labels {
		spec.NodeSelector[label] = "x"
	}
	return spec
}

func preferring(term core.NodeSelectorTerm) core.PodSpec {
	return core.PodSpec{Affinity: &core.Affinity{NodeAffinity: &core.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []core.PreferredSchedulingTerm{{Weight: 1, Preference: term}},
	}}}
}

func requiring(key string) core.PodSpec {
	return core.PodSpec{Affinity: &core.Affinity{NodeAffinity: &core.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{
			{MatchExpressions: []core.NodeSelectorRequirement{{Key: "kubernetes.io/os"}}},
			{MatchExpressions: []core.NodeSelectorRequirement{{Key: key}}},
		}},
	}}}
}

func tolerating(tolerations ...core.Toleration) core.PodSpec {
	return core.PodSpec{Tolerations: tolerations}
}

func spreading(key string) core.PodSpec {
	return core.PodSpec{TopologySpreadConstraints: []core.TopologySpreadConstraint{{TopologyKey: key}}}
}

func apartBy(required, preferred string) core.PodSpec {
	return core.PodSpec{Affinity: &core.Affinity{
		PodAffinity: &core.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []core.PodAffinityTerm{{TopologyKey: required}}},
		PodAntiAffinity: &core.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []core.WeightedPodAffinityTerm{
			{PodAffinityTerm: core.PodAffinityTerm{TopologyKey: preferred}},
		}},
	}}
}

// choicesOf returns what is said of a pod spec.
func choicesOf(spec *core.PodSpec, rules *v1alpha1.NodePlacement) (said []string) {
	f := &finder{rules: rules}
	f.inPod(spec, "s")
	for _, c := range f.sorted() {
		said = append(said, c.what)
	}
	return slices.Compact(said)
}

func templateOf(spec core.PodSpec) core.PodTemplateSpec { return core.PodTemplateSpec{Spec: spec} }

func TestChoices(t *testing.T) {
	limited := &v1alpha1.NodePlacement{Mode: v1alpha1.NodePlacementLimited, AllowedLabels: []string{"zone"}, AllowedTaints: []string{"spot"}}
	disabled := &v1alpha1.NodePlacement{Mode: v1alpha1.NodePlacementDisabled}
	for name, tc := range map[string]struct {
		spec              core.PodSpec
		disabled, limited []string
	}{
		"nothing":            {},
		"platform":           {spec: selecting("kubernetes.io/os", "kubernetes.io/arch")},
		"node name":          {spec: core.PodSpec{NodeName: "n"}, disabled: []string{`s.nodeName "n"`}, limited: []string{`s.nodeName "n"`}},
		"allowed label":      {spec: selecting("zone"), disabled: []string{`s.nodeSelector "zone"`}},
		"other labels":       {spec: selecting("zone", "disk"), disabled: []string{`s.nodeSelector "disk"`, `s.nodeSelector "zone"`}, limited: []string{`s.nodeSelector "disk"`}},
		"required affinity":  {spec: requiring("zone"), disabled: []string{`s.affinity.nodeAffinity "zone"`}},
		"required otherwise": {spec: requiring("disk"), disabled: []string{`s.affinity.nodeAffinity "disk"`}, limited: []string{`s.affinity.nodeAffinity "disk"`}},
		"preferred affinity": {
			spec:     preferring(core.NodeSelectorTerm{MatchExpressions: []core.NodeSelectorRequirement{{Key: "disk"}, {Key: "disk"}}}),
			disabled: []string{`s.affinity.nodeAffinity "disk"`}, limited: []string{`s.affinity.nodeAffinity "disk"`},
		},
		"node by field": {
			spec:     preferring(core.NodeSelectorTerm{MatchFields: []core.NodeSelectorRequirement{{Key: "metadata.name"}}}),
			disabled: []string{`s.affinity.nodeAffinity of field "metadata.name"`}, limited: []string{`s.affinity.nodeAffinity of field "metadata.name"`},
		},
		"pod affinity":        {spec: core.PodSpec{Affinity: &core.Affinity{PodAffinity: &core.PodAffinity{}}}},
		"default tolerations": {spec: tolerating(core.Toleration{Key: "node.kubernetes.io/not-ready", Effect: core.TaintEffectNoExecute})},
		"longer tolerations": {
			spec:     tolerating(core.Toleration{Key: "node.kubernetes.io/not-ready"}),
			disabled: []string{`s.tolerations "node.kubernetes.io/not-ready"`}, limited: []string{`s.tolerations "node.kubernetes.io/not-ready"`},
		},
		"memory pressure": {spec: tolerating(core.Toleration{Key: "node.kubernetes.io/memory-pressure", Effect: core.TaintEffectNoSchedule})},
		"usual spread":    {spec: spreading("topology.kubernetes.io/zone")},
		"other spread":    {spec: spreading("disk"), disabled: []string{`s.topologySpreadConstraints with topology key "disk"`}, limited: []string{`s.topologySpreadConstraints with topology key "disk"`}},
		"allowed spread":  {spec: spreading("zone"), disabled: []string{`s.topologySpreadConstraints with topology key "zone"`}},
		"usual apart":     {spec: apartBy("kubernetes.io/hostname", "topology.kubernetes.io/region")},
		"other apart": {
			spec:     apartBy("disk", "zone"),
			disabled: []string{`s.affinity with topology key "disk"`, `s.affinity with topology key "zone"`}, limited: []string{`s.affinity with topology key "disk"`},
		},
		"allowed taint": {spec: tolerating(core.Toleration{Key: "spot"}), disabled: []string{`s.tolerations "spot"`}},
		"every taint": {
			spec:     tolerating(core.Toleration{Operator: core.TolerationOpExists}),
			disabled: []string{"s.tolerations of every taint"}, limited: []string{"s.tolerations of every taint"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.disabled, choicesOf(&tc.spec, disabled)); diff != "" {
				t.Errorf("disabled: %s", diff)
			}
			if diff := cmp.Diff(tc.limited, choicesOf(&tc.spec, limited)); diff != "" {
				t.Errorf("limited: %s", diff)
			}
		})
	}
}

func TestPlacement(t *testing.T) {
	enabled := &v1alpha1.NodePlacement{Mode: v1alpha1.NodePlacementEnabled}
	chosen := selecting("disk")
	rollout := func(template any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": template}}}
	}
	rollouts := schema.GroupResource{Group: "example.com", Resource: "rollouts"}
	for name, tc := range map[string]struct {
		of          user.Info // a member if nil
		resource    schema.GroupResource
		object      runtime.Object
		old         runtime.Object // an update, if there is one
		tenant      *v1alpha1.NodePlacement
		subresource string
		want        string // part of the error, empty for none
	}{
		"pod":                    {object: &core.Pod{Spec: chosen}, want: `SpacePolicy: node placement is Disabled in this tenant, which does not allow spec.nodeSelector "disk"`},
		"pod of an enabled one":  {object: &core.Pod{Spec: chosen}, tenant: enabled},
		"pod template":           {object: &core.PodTemplate{Template: templateOf(chosen)}, want: `template.spec.nodeSelector "disk"`},
		"deployment":             {object: &apps.Deployment{Spec: apps.DeploymentSpec{Template: templateOf(chosen)}}, want: `spec.template.spec.nodeSelector "disk"`},
		"replica set":            {object: &apps.ReplicaSet{Spec: apps.ReplicaSetSpec{Template: templateOf(chosen)}}, want: "nodeSelector"},
		"stateful set":           {object: &apps.StatefulSet{Spec: apps.StatefulSetSpec{Template: templateOf(chosen)}}, want: "nodeSelector"},
		"replication controller": {object: &core.ReplicationController{Spec: core.ReplicationControllerSpec{Template: &core.PodTemplateSpec{Spec: chosen}}}, want: "nodeSelector"},
		"no template":            {object: &core.ReplicationController{}},
		"job":                    {object: &batch.Job{Spec: batch.JobSpec{Template: templateOf(chosen)}}, want: "nodeSelector"},
		"cron job": {
			object: &batch.CronJob{Spec: batch.CronJobSpec{JobTemplate: batch.JobTemplateSpec{Spec: batch.JobSpec{Template: templateOf(chosen)}}}},
			want:   `spec.jobTemplate.spec.template.spec.nodeSelector "disk"`,
		},
		"binding":           {object: &core.Binding{Target: core.ObjectReference{Name: "n"}}, want: `target "n"`},
		"administrator":     {of: &user.DefaultInfo{Name: "root", Extra: map[string][]string{tenant.UserExtraKey: {"system"}}}, object: &core.Pod{Spec: chosen}},
		"controller":        {of: &user.DefaultInfo{Name: user.APIServerUser, Extra: map[string][]string{tenant.UserExtraKey: {"system"}}}, object: &core.Pod{Spec: chosen}, want: "nodeSelector"},
		"update keeps it":   {object: &core.Pod{Spec: chosen}, old: &core.Pod{Spec: chosen}},
		"update adds":       {object: &core.Pod{Spec: selecting("disk", "zone")}, old: &core.Pod{Spec: chosen}, want: `does not allow spec.nodeSelector "zone";`},
		"update changes it": {object: &core.Pod{Spec: selecting("disk")}, old: &core.Pod{Spec: core.PodSpec{NodeSelector: map[string]string{"disk": "y"}}}, want: `spec.nodeSelector "disk"`},
		"volume": {
			object: &core.PersistentVolume{Spec: core.PersistentVolumeSpec{NodeAffinity: &core.VolumeNodeAffinity{Required: &core.NodeSelector{
				NodeSelectorTerms: []core.NodeSelectorTerm{{MatchExpressions: []core.NodeSelectorRequirement{{Key: "kubernetes.io/hostname"}}}},
			}}}},
			want: `spec.nodeAffinity "kubernetes.io/hostname"`,
		},
		"volume of a zone": {
			object: &core.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"topology.kubernetes.io/zone": "z"}}},
			want:   `metadata.labels "topology.kubernetes.io/zone"`,
		},
		"volume anywhere": {object: &core.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": "z"}}}},
		"storage class": {
			object: &storage.StorageClass{AllowedTopologies: []core.TopologySelectorTerm{
				{MatchLabelExpressions: []core.TopologySelectorLabelRequirement{{Key: "topology.kubernetes.io/zone"}}},
			}},
			want: `allowedTopologies "topology.kubernetes.io/zone"`,
		},
		"claim of devices": {
			object: &resource.ResourceClaim{Status: resource.ResourceClaimStatus{Allocation: &resource.AllocationResult{NodeSelector: &core.NodeSelector{
				NodeSelectorTerms: []core.NodeSelectorTerm{{MatchFields: []core.NodeSelectorRequirement{{Key: "metadata.name"}}}},
			}}}},
			old:  &resource.ResourceClaim{},
			want: `status.allocation.nodeSelector of field "metadata.name"`,
		},
		"nomination": {
			object: &core.Pod{Status: core.PodStatus{NominatedNodeName: "n"}}, old: &core.Pod{}, subresource: "status",
			want: `status.nominatedNodeName "n"`,
		},
		"nomination by the scheduler": {
			object: &core.Pod{Status: core.PodStatus{NominatedNodeName: "n"}}, old: &core.Pod{Status: core.PodStatus{NominatedNodeName: "n"}}, subresource: "status",
		},
		"custom resource":     {resource: rollouts, object: rollout(map[string]any{"spec": map[string]any{"nodeName": "n"}}), want: `spec.template.spec.nodeName "n"`},
		"other resource":      {resource: schema.GroupResource{Group: "example.com", Resource: "others"}, object: rollout(map[string]any{"spec": map[string]any{"nodeName": "n"}})},
		"custom, no template": {resource: rollouts, object: rollout(nil)},
		"custom, no pod spec": {resource: rollouts, object: rollout(map[string]any{"spec": map[string]any{"nodeName": int64(5)}}), want: "spec.template is not a pod template"},
		"custom, no map":      {resource: rollouts, object: rollout("text"), want: "spec.template is not a pod template"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := New(strings.NewReader(header+"podTemplates: [{group: example.com, resource: rollouts, paths: [spec.template]}]"),
				Rules{Placement: func(tenant.Name) *v1alpha1.NodePlacement { return tc.tenant }})
			if err != nil {
				t.Fatal(err)
			}
			operation, of := admission.Create, tc.of
			if tc.old != nil {
				operation = admission.Update
			}
			if of == nil {
				of = member
			}
			a := admission.NewAttributesRecord(tc.object, tc.old, schema.GroupVersionKind{}, "ns", "x",
				tc.resource.WithVersion("v1"), tc.subresource, operation, nil, false, of)
			err = p.Validate(tenant.WithSpace(t.Context(), "a"), a, nil)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if err := p.Validate(tenant.WithSpace(t.Context(), tenant.System), a, nil); err != nil {
				t.Errorf("in the system space: %v", err)
			}
		})
	}
}

func TestConfiguration(t *testing.T) {
	for config, want := range map[string]string{
		header + "nodePlacement: {mode: Limited, allowedLabels: [zone]}":               "",
		header + "nodePlacement: {mode: limited}":                                      "is not Disabled, Limited or Enabled",
		header + "nodePlacement: {mode: Enabled, allowedLabels: [zone]}":               "need mode: Limited",
		header + "podTemplates: [{group: example.com, resource: r}]":                   "paths: at least one",
		header + "podTemplates: [{resource: r, paths: [spec]}]":                        `podTemplates[0].group: ""`,
		header + "podTemplates: [{group: example.com, resource: r, paths: [spec..t]}]": `podTemplates[0].paths[0]: "spec..t"`,
		header + "daemonSets: {mode: Never}":                                           `daemonSets.mode: "Never" is not Refused or Inert`,
		header + "nodes: {}":                                                           `unknown field "nodes"`,
		"apiVersion: v1\nkind: ConfigMap\n":                                            "SpacePolicyConfiguration",
		"{":                                                                            "reading the configuration of SpacePolicy",
	} {
		_, err := New(strings.NewReader(config), Rules{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", config, err, want)
		}
	}
}
