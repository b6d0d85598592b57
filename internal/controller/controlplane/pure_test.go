package controlplane

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
)

// named returns a ControlPlane of the tests.
func named(changes ...func(*v1alpha1.ControlPlane)) *v1alpha1.ControlPlane {
	cp := &v1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cp", UID: "1"}}
	for _, change := range changes {
		change(cp)
	}
	return cp
}

var (
	errRead    = errors.New("the host does not answer")
	errMissing = apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "s")
	errRefused = apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "s", nil)
)

// reasonOf returns the reason of a problem, empty if an error is none.
func reasonOf(err error) string {
	if p, is := errors.AsType[*conditions.Problem](err); is {
		return p.Reason
	}
	return ""
}

// TestTenantLimitsOfNoTenant checks that a quota which no Tenant could have is found where it is written.
func TestTenantLimitsOfNoTenant(t *testing.T) {
	limited := func(name corev1.ResourceName) *v1alpha1.ControlPlane {
		return named(func(cp *v1alpha1.ControlPlane) {
			cp.Spec.TenantLimits = &v1alpha1.TenantLimits{Quota: corev1.ResourceList{name: resource.MustParse("1")}}
		})
	}
	_, err := tenantLimits(limited("pod"))
	if reasonOf(err) != v1alpha1.ReasonConfigurationInvalid || !strings.Contains(err.Error(), "spec.tenantLimits: limits.quota[pod]") {
		t.Errorf("got %v", err)
	}
	if _, err := tenantLimits(limited("pods")); err != nil {
		t.Error(err)
	}
}

// TestChecked checks that what is not of a ControlPlane is never taken for its own.
func TestChecked(t *testing.T) {
	marked := func(labels map[string]string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: "s", Labels: labels} }
	owned := func(uid types.UID, controls bool) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "s", OwnerReferences: []metav1.OwnerReference{{Kind: "ControlPlane", Name: "cp", UID: uid, Controller: &controls}}}
	}
	for name, tc := range map[string]struct {
		live   metav1.ObjectMeta
		err    error
		found  bool
		reason string
		want   error
	}{
		"not there":               {err: errMissing},
		"not known":               {err: errRead, want: errRead},
		"by its labels":           {live: marked(labelsOf(named())), found: true},
		"by its controller":       {live: owned("1", true), found: true},
		"foreign":                 {live: marked(nil), found: true, reason: v1alpha1.ReasonNameTaken},
		"of another operator":     {live: marked(map[string]string{ofLabel: "cp"}), found: true, reason: v1alpha1.ReasonNameTaken},
		"of another ControlPlane": {live: marked(map[string]string{managedLabel: FieldManager, ofLabel: "x"}), found: true, reason: v1alpha1.ReasonNameTaken},
		"of an earlier one":       {live: owned("2", true), found: true, reason: v1alpha1.ReasonNameTaken},
		"owned, not controlled":   {live: owned("1", false), found: true, reason: v1alpha1.ReasonNameTaken},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := checked(named(), "Secret", "s", &corev1.Secret{ObjectMeta: tc.live}, tc.err)
			if found != tc.found || reasonOf(err) != tc.reason || !errors.Is(err, tc.want) && tc.reason == "" {
				t.Errorf("got %v, %v", found, err)
			}
		})
	}
}

// TestAgain checks when it is looked again, and which errors are tried again at once.
func TestAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		starting bool
		err      error
		after    time.Duration
		want     error
	}{
		"all is well":            {after: renewalPeriod},
		"a pod waits":            {starting: true, after: startPeriod},
		"somebody has to mend":   {err: conditions.Problemf(v1alpha1.ReasonNameTaken, "x"), after: conditions.ProblemPeriod},
		"while a pod waits":      {starting: true, err: conditions.Problemf(v1alpha1.ReasonNameTaken, "x"), after: conditions.ProblemPeriod},
		"the host refuses it":    {err: errRefused, want: reconcile.TerminalError(nil)},
		"the host fails":         {err: errRead, want: errRead},
		"the host fails at once": {starting: true, err: errRead, want: errRead},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := (&Reconciler{now: time.Now}).again(&work{servers: observed{starting: tc.starting}}, tc.err)
			if got.RequeueAfter != tc.after || !errors.Is(err, tc.want) {
				t.Errorf("got %v, %v", got, err)
			}
			if terminal := errors.Is(err, reconcile.TerminalError(nil)); terminal != apierrors.IsInvalid(tc.err) {
				t.Errorf("it is terminal: %v", terminal)
			}
		})
	}
}

// TestEndpoint checks by which address clients are told to reach the servers.
func TestEndpoint(t *testing.T) {
	exposed := func(kind v1alpha1.ExposeType, names ...string) *v1alpha1.ControlPlane {
		return named(func(cp *v1alpha1.ControlPlane) { cp.Spec.Expose.Type, cp.Spec.Expose.Names = kind, names })
	}
	service := func(ports ...int32) *applycorev1.ServiceApplyConfiguration {
		s := applycorev1.Service("cp", "ns").WithSpec(applycorev1.ServiceSpec())
		for _, port := range ports {
			s.Spec.WithPorts(applycorev1.ServicePort().WithNodePort(port))
		}
		return s
	}
	balanced := func(host, ip string) *applycorev1.ServiceApplyConfiguration {
		ingress := applycorev1.LoadBalancerIngress()
		if host != "" {
			ingress.WithHostname(host)
		}
		if ip != "" {
			ingress.WithIP(ip)
		}
		return service().WithStatus(applycorev1.ServiceStatus().WithLoadBalancer(applycorev1.LoadBalancerStatus().WithIngress(ingress)))
	}
	for name, tc := range map[string]struct {
		cp      *v1alpha1.ControlPlane
		applied *applycorev1.ServiceApplyConfiguration
		want    string
	}{
		"in the cluster":               {exposed(v1alpha1.ExposeClusterIP), service(), "https://cp.ns.svc:443"},
		"in the cluster, by a name":    {exposed(v1alpha1.ExposeClusterIP, "a.example.com", "b"), service(), "https://a.example.com:443"},
		"a port, by a name":            {exposed(v1alpha1.ExposeNodePort, "a.example.com"), service(30001), "https://a.example.com:30001"},
		"a port, by an IPv6 address":   {exposed(v1alpha1.ExposeNodePort, "2001:db8::1"), service(30001), "https://[2001:db8::1]:30001"},
		"a port of nodes without name": {exposed(v1alpha1.ExposeNodePort), service(30001), ""},
		"a port that is not given yet": {exposed(v1alpha1.ExposeNodePort, "a.example.com"), service(), ""},
		"a load balancer's name":       {exposed(v1alpha1.ExposeLoadBalancer), balanced("lb.example.com", ""), "https://lb.example.com:443"},
		"a load balancer's address":    {exposed(v1alpha1.ExposeLoadBalancer), balanced("", "2001:db8::2"), "https://[2001:db8::2]:443"},
		"a load balancer, by a name":   {exposed(v1alpha1.ExposeLoadBalancer, "a.example.com"), balanced("", "192.0.2.1"), "https://a.example.com:443"},
		"a load balancer without any":  {exposed(v1alpha1.ExposeLoadBalancer), balanced("", ""), ""},
		"no load balancer yet":         {exposed(v1alpha1.ExposeLoadBalancer), service(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := endpoint(tc.cp, tc.applied); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestHosts checks for which names the certificate of the servers is.
func TestHosts(t *testing.T) {
	cp := named(func(cp *v1alpha1.ControlPlane) { cp.Spec.Expose.Names = []string{"a.example.com"} })
	applied := applycorev1.Service("cp", "ns").WithSpec(applycorev1.ServiceSpec().WithClusterIPs("10.0.0.1", "fd00::1")).
		WithStatus(applycorev1.ServiceStatus().WithLoadBalancer(applycorev1.LoadBalancerStatus().WithIngress(
			applycorev1.LoadBalancerIngress().WithHostname("lb.example.com").WithIP("192.0.2.1"))))
	want := []string{"cp", "cp.ns", "cp.ns.svc", "cp.ns.svc.cluster.local", "10.0.0.1", "fd00::1", "a.example.com", "lb.example.com", "192.0.2.1"}
	if diff := cmp.Diff(want, hosts(cp, applied)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTransitions checks of which changes people are told.
func TestTransitions(t *testing.T) {
	is := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "m"}
	}
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	available, degraded := v1alpha1.ConditionAvailable, v1alpha1.ConditionDegraded
	for name, tc := range map[string]struct {
		before, after metav1.Condition
		want          []string
	}{
		"new and not available":         {metav1.Condition{}, is(available, no, "a"), nil},
		"new and available":             {metav1.Condition{}, is(available, yes, "a"), []string{"Normal a m"}},
		"new and degraded":              {metav1.Condition{}, is(degraded, yes, "a"), []string{"Warning a m"}},
		"available":                     {is(available, no, "b"), is(available, yes, "a"), []string{"Normal a m"}},
		"not available any more":        {is(available, yes, "b"), is(available, no, "a"), []string{"Warning a m"}},
		"not available by other reason": {is(available, no, "b"), is(available, no, "a"), []string{"Warning a m"}},
		"still available":               {is(available, yes, "a"), is(available, yes, "a"), nil},
		"degraded by another reason":    {is(degraded, yes, "b"), is(degraded, yes, "a"), []string{"Warning a m"}},
		"still degraded":                {is(degraded, yes, "a"), is(degraded, yes, "a"), nil},
		"not degraded any more":         {is(degraded, yes, "b"), is(degraded, no, "a"), nil},
		"progressing":                   {is(v1alpha1.ConditionProgressing, no, "b"), is(v1alpha1.ConditionProgressing, yes, "a"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, told := range conditions.Transitions([]metav1.Condition{tc.before}, []metav1.Condition{tc.after}, eventType) {
				got = append(got, told.Type+" "+told.Reason+" "+told.Message)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLastLine checks that nothing of an audit log gets into a status.
func TestLastLine(t *testing.T) {
	event := auditEvent + `"responseObject":{"kind":"Secret","data":{"password":"c2VjcmV0"}}}`
	long := strings.Repeat("x", cutMessage)
	for name, tc := range map[string]struct{ message, want string }{
		"one line":              {"the disk is full\n", "the disk is full"},
		"the last of some":      {"starting\nthe disk is full\n", "the disk is full"},
		"before an event":       {"the disk is full\n" + event + "\n", "the disk is full"},
		"events":                {event + "\n" + event + "\n", ""},
		"the end of an event":   {(long + event + "\n")[len(event):], ""},
		"behind what is cut":    {(long + event + "\nthe disk is full\n")[len(event):], "the disk is full"},
		"between cut and event": {long + "\nthe disk is full\n" + event, "the disk is full"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lastLine(tc.message); got != tc.want {
				t.Errorf("got %.100q, want %q", got, tc.want)
			}
		})
	}
}
