package admission

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/networking"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestModes(t *testing.T) {
	for _, name := range options.AllOrderedPlugins {
		if _, ok := modes[name]; !ok {
			t.Errorf("plugin %q has no mode", name)
		}
	}
}

// outcome is what became of a request: an error's text, or something read from
// the admitted object.
func outcome(err error, admitted func() string) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return admitted()
}

func allowed() string { return "allowed" }

// TestJoins sends the same request into three spaces. Each must be answered
// from the objects of its own.
func TestJoins(t *testing.T) {
	for name, tc := range map[string]struct {
		objects []runtime.Object
		request func(s *server, n tenant.Name) string
		// want is the expected outcome, or a part of the expected error.
		want map[tenant.Name]string
	}{
		"NamespaceLifecycle: existence": {
			objects: []runtime.Object{namespaceIn("a", "only")},
			request: func(s *server, n tenant.Name) string {
				return outcome(s.create(n, &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "only", Name: "c"}}), allowed)
			},
			want: map[tenant.Name]string{
				"a": "allowed", "b": `error: namespaces "only" not found`, tenant.System: `error: namespaces "only" not found`,
			},
		},
		"NamespaceLifecycle: termination": {
			objects: []runtime.Object{terminating("a"), namespaceIn("b", "going"), namespaceIn(tenant.System, "going")},
			request: func(s *server, n tenant.Name) string {
				return outcome(s.create(n, &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "going", Name: "c"}}), allowed)
			},
			want: map[tenant.Name]string{
				"a": `error: configmaps "c" is forbidden: unable to create new content in namespace going because it is being terminated`,
				"b": "allowed", tenant.System: "allowed",
			},
		},
		"LimitRanger": {
			objects: []runtime.Object{limits("a", "100m"), limits("b", "200m")},
			request: func(s *server, n tenant.Name) string {
				p := pod("team")
				return outcome(s.create(n, p), func() string { return quantity(p.Spec.Containers[0].Resources.Requests, core.ResourceCPU) })
			},
			want: map[tenant.Name]string{"a": "100m", "b": "200m", tenant.System: "0"},
		},
		"ServiceAccount": {
			objects: []runtime.Object{&corev1.ServiceAccount{ObjectMeta: flatMeta("a", "team", "builder")}},
			request: func(s *server, n tenant.Name) string {
				p := pod("team", func(p *core.Pod) { p.Spec.ServiceAccountName = "builder" })
				return outcome(s.create(n, p), func() string { return p.Spec.Volumes[0].Projected.Sources[1].ConfigMap.Name })
			},
			want: map[tenant.Name]string{
				"a":           "kube-root-ca.crt",
				"b":           `error: pods "p" is forbidden: error looking up service account team/builder: serviceaccount "builder" not found`,
				tenant.System: `error: pods "p" is forbidden: error looking up service account team/builder: serviceaccount "builder" not found`,
			},
		},
		"PodSecurity": {
			objects: []runtime.Object{restricted("a"), namespaceIn("b", "safe"), namespaceIn(tenant.System, "safe"),
				&corev1.ServiceAccount{ObjectMeta: flatMeta("a", "safe", "default")},
				&corev1.ServiceAccount{ObjectMeta: flatMeta("b", "safe", "default")},
				&corev1.ServiceAccount{ObjectMeta: flatMeta(tenant.System, "safe", "default")}},
			request: func(s *server, n tenant.Name) string { return outcome(s.create(n, pod("safe")), allowed) },
			want: map[tenant.Name]string{
				"a": `error: pods "p" is forbidden: violates PodSecurity "restricted:latest"`, "b": "allowed", tenant.System: "allowed",
			},
		},
		"ResourceQuota": {
			objects: []runtime.Object{podQuota("a", "0"), podQuota("b", "1")},
			request: func(s *server, n tenant.Name) string { return outcome(s.create(n, pod("team")), allowed) },
			want: map[tenant.Name]string{
				"a": `error: pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0`,
				"b": "allowed", tenant.System: "allowed",
			},
		},
		"Priority by name": {
			objects: []runtime.Object{priority("a", "high", 10, false), priority("b", "high", 20, false)},
			request: func(s *server, n tenant.Name) string {
				p := pod("team", func(p *core.Pod) { p.Spec.PriorityClassName = "high" })
				return outcome(s.create(n, p), func() string { return resource.NewQuantity(int64(*p.Spec.Priority), resource.DecimalSI).String() })
			},
			want: map[tenant.Name]string{
				"a": "10", "b": "20", tenant.System: `error: pods "p" is forbidden: no PriorityClass with name high was found`,
			},
		},
		"Priority by default": {
			objects: []runtime.Object{priority("a", "usual", 10, true), priority(tenant.System, "common", 30, true)},
			request: func(s *server, n tenant.Name) string {
				p := pod("team")
				return outcome(s.create(n, p), func() string { return "class " + p.Spec.PriorityClassName })
			},
			want: map[tenant.Name]string{"a": "class usual", "b": "class ", tenant.System: "class common"},
		},
		"Priority: a critical class": {
			objects: []runtime.Object{priority(tenant.System, "system-node-critical", 2000001000, false)},
			request: func(s *server, n tenant.Name) string {
				return outcome(s.create(n, pod("team", func(p *core.Pod) { p.Spec.PriorityClassName = "system-node-critical" })), allowed)
			},
			want: map[tenant.Name]string{"a": "allowed", "b": "allowed", tenant.System: "allowed"},
		},
		"DefaultStorageClass": {
			objects: []runtime.Object{storageClass("a", "fast"), storageClass("b", "slow")},
			request: func(s *server, n tenant.Name) string {
				claim := &core.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c"}}
				return outcome(s.create(n, claim), func() string {
					if claim.Spec.StorageClassName == nil {
						return "no class"
					}
					return *claim.Spec.StorageClassName
				})
			},
			want: map[tenant.Name]string{"a": "fast", "b": "slow", tenant.System: "no class"},
		},
		"DefaultIngressClass": {
			objects: []runtime.Object{ingressClass("a", "front"), ingressClass(tenant.System, "edge")},
			request: func(s *server, n tenant.Name) string {
				ingress := &networking.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "i"}}
				return outcome(s.create(n, ingress), func() string {
					if ingress.Spec.IngressClassName == nil {
						return "no class"
					}
					return *ingress.Spec.IngressClassName
				})
			},
			want: map[tenant.Name]string{"a": "front", "b": "no class", tenant.System: "edge"},
		},
		"RuntimeClass": {
			objects: []runtime.Object{runtimeClass("a", "100m"), runtimeClass("b", "200m")},
			request: func(s *server, n tenant.Name) string {
				name := "sandbox"
				p := pod("team", func(p *core.Pod) { p.Spec.RuntimeClassName = &name })
				return outcome(s.create(n, p), func() string { return quantity(p.Spec.Overhead, core.ResourceCPU) })
			},
			want: map[tenant.Name]string{
				"a": "100m", "b": "200m", tenant.System: `error: pods "p" is forbidden: pod rejected: RuntimeClass "sandbox" not found`,
			},
		},
		"SpacePolicy: DaemonSet": {
			request: func(s *server, n tenant.Name) string {
				return outcome(s.create(n, &apps.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "d"}}), allowed)
			},
			want: map[tenant.Name]string{
				"a":           `error: daemonsets.apps "d" is forbidden: SpacePolicy: ` + "a space has no nodes to run a pod on each of; use a Deployment, or ask the platform's administrators for daemonSets: {mode: Inert} in the Tenant, which stores DaemonSets without running them",
				"b":           `error: daemonsets.apps "d" is forbidden: SpacePolicy: `,
				tenant.System: "allowed",
			},
		},
		"SpacePolicy: Node": {
			request: func(s *server, n tenant.Name) string {
				return outcome(s.create(n, &core.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}), allowed)
			},
			want: map[tenant.Name]string{
				"a":           `error: nodes "n" is forbidden: SpacePolicy: nodes belong to the system space`,
				"b":           `error: nodes "n" is forbidden: SpacePolicy: `,
				tenant.System: "allowed",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, serverConfig{objects: spaces(tc.objects...)})
			for n, want := range tc.want {
				got := tc.request(s, n)
				if got != want && !(strings.HasPrefix(want, "error: ") && strings.HasPrefix(got, want)) {
					t.Errorf("in space %q: got %q, want %q", n, got, want)
				}
			}
		})
	}
}

func quantity(list core.ResourceList, name core.ResourceName) string {
	q := list[name]
	return q.String()
}

func terminating(n tenant.Name) *corev1.Namespace {
	ns := namespaceIn(n, "going")
	ns.Status.Phase = corev1.NamespaceTerminating
	return ns
}

func restricted(n tenant.Name) *corev1.Namespace {
	ns := namespaceIn(n, "safe")
	ns.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	return ns
}

func limits(n tenant.Name, cpu string) *corev1.LimitRange {
	return &corev1.LimitRange{
		ObjectMeta: flatMeta(n, "team", "l"),
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type:           corev1.LimitTypeContainer,
			DefaultRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
		}}},
	}
}

func podQuota(n tenant.Name, pods string) *corev1.ResourceQuota {
	hard := corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
	return &corev1.ResourceQuota{
		ObjectMeta: flatMeta(n, "team", "q"),
		Spec:       corev1.ResourceQuotaSpec{Hard: hard},
		Status: corev1.ResourceQuotaStatus{
			Hard: hard, Used: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")},
		},
	}
}

func priority(n tenant.Name, name string, value int32, globalDefault bool) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: flatMeta(n, "", name), Value: value, GlobalDefault: globalDefault}
}

func storageClass(n tenant.Name, name string) *storagev1.StorageClass {
	class := &storagev1.StorageClass{ObjectMeta: flatMeta(n, "", name)}
	class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	return class
}

func ingressClass(n tenant.Name, name string) *networkingv1.IngressClass {
	class := &networkingv1.IngressClass{ObjectMeta: flatMeta(n, "", name)}
	class.Annotations = map[string]string{"ingressclass.kubernetes.io/is-default-class": "true"}
	return class
}

func runtimeClass(n tenant.Name, cpu string) *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{
		ObjectMeta: flatMeta(n, "", "sandbox"),
		Overhead:   &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
	}
}

// TestPlainObjects checks that no plugin leaves a flattened name behind.
func TestPlainObjects(t *testing.T) {
	s := newServer(t, serverConfig{objects: spaces()})
	p := pod("team")
	if err := s.create("a", p); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("team", p.Namespace); diff != "" {
		t.Error(diff)
	}
	old := &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", ResourceVersion: "1"}}
	updated := old.DeepCopy()
	updated.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	if err := s.do(call{space: "a", operation: admission.Update, object: updated, old: old}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"team", "team"}, []string{old.Name, updated.Name}); diff != "" {
		t.Error(diff)
	}
}

// TestQuotaIsCharged checks that use is charged in the request's own space.
func TestQuotaIsCharged(t *testing.T) {
	s := newServer(t, serverConfig{objects: spaces(podQuota("a", "5"), podQuota("b", "5"))})
	if err := s.create("a", pod("team")); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[tenant.Name]int64{"a": 1, "b": 0} {
		quota, err := s.client.CoreV1().ResourceQuotas(tenant.Flatten(n, "team").String()).Get(t.Context(), "q", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := quota.Status.Used.Pods().Value(); got != want {
			t.Errorf("used pods in space %q: got %d, want %d", n, got, want)
		}
	}
}

func TestProtectedNamespaces(t *testing.T) {
	for name, tc := range map[string]struct {
		space       tenant.Name
		namespace   string
		terminating bool
		forbidden   bool
	}{
		"system space":                      {space: tenant.System, namespace: "default", forbidden: true},
		"space, default":                    {space: "a", namespace: "default", forbidden: true},
		"space, kube-system":                {space: "a", namespace: "kube-system", forbidden: true},
		"space, kube-public":                {space: "a", namespace: "kube-public", forbidden: true},
		"space, kube-node-lease":            {space: "a", namespace: "kube-node-lease"},
		"space, another":                    {space: "a", namespace: "team"},
		"space of a tenant being deleted":   {space: "a", namespace: "default", terminating: true},
		"system space, whatever terminates": {space: tenant.System, namespace: "default", terminating: true, forbidden: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, serverConfig{
				objects:     spaces(),
				terminating: func(tenant.Name) bool { return tc.terminating },
			})
			err := s.do(call{
				space: tc.space, operation: admission.Delete,
				old: &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tc.namespace}},
			})
			if got := apierrors.IsForbidden(err); got != tc.forbidden {
				t.Errorf("forbidden = %v, want %v: %v", got, tc.forbidden, err)
			}
			if err != nil && strings.Contains(err.Error(), "|") {
				t.Errorf("error %q has a flattened name", err)
			}
		})
	}
}

// TestNewNamespace checks that a namespace the informers have not seen yet is
// found, and costs one question to the server.
func TestNewNamespace(t *testing.T) {
	s := newServer(t, serverConfig{objects: spaces()})
	// The fake's watch tells nobody about what its tracker was given directly.
	indexer := s.informers.Core().V1().Namespaces().Informer().GetIndexer()
	hidden := namespaceIn("a", "team")
	if err := indexer.Delete(hidden); err != nil {
		t.Fatal(err)
	}
	s.client.ClearActions()
	if err := s.create("a", &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c"}}); err != nil {
		t.Fatal(err)
	}
	gets := 0
	for _, action := range s.client.Actions() {
		if action.Matches("get", "namespaces") {
			gets++
		}
	}
	if gets != 1 {
		t.Errorf("got %d questions for the namespace, want 1", gets)
	}
}

// TestNoTenant checks that a request without a space is refused.
func TestNoTenant(t *testing.T) {
	s := newServer(t, serverConfig{objects: spaces()})
	if err := s.create("", pod("team")); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want it forbidden", err)
	}
}
