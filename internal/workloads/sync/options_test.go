package sync

import (
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		options Options
		want    string
	}{
		"accepted":           {options: Options{NetworkIsolation: "Unenforced"}},
		"tested":             {options: Options{Image: "i"}},
		"said to be tested":  {options: Options{NetworkIsolation: "Enforced", Image: "i"}},
		"no image":           {options: Options{NetworkIsolation: "Unenforced", Image: "x y"}, want: `--workloads-image is "x y"`},
		"nobody can test it": {want: "--network-isolation=Unenforced"},
		"what is not there":  {options: Options{NetworkIsolation: "None"}, want: `--network-isolation is "None"`},
		"no range":           {options: Options{Image: "i", ClusterCIDRs: []string{"10.0.0.0/33"}}, want: "--network-isolation-cluster-cidrs"},
		"no address":         {options: Options{Image: "i", AllowCIDRs: []string{"api"}}, want: `--network-isolation-allow-cidrs: "api" is neither`},
		"all addresses":      {options: Options{Image: "i", ClusterCIDRs: []string{"0.0.0.0/0"}, AllowCIDRs: []string{"10.0.0.0/8", "::/0"}}, want: "--network-isolation-allow-cidrs: ::/0 is everything"},
		"a Service for DNS":  {options: Options{Image: "i", DNSService: "a/b"}},
		"no namespace of it": {options: Options{Image: "i", DNSService: "/dns"}, want: `--dns-service is "/dns"`},
		"no name of one":     {options: Options{Image: "i", DNSService: "a/b_c"}, want: `--dns-service is "a/b_c"`},
		"no Service for DNS": {options: Options{Image: "i", DNSService: "dns"}, want: `--dns-service is "dns"`},
		"a negative limit":   {options: Options{NetworkIsolation: "Unenforced", OrphanLimit: -1}, want: "--orphan-limit is -1"},
		"no namespaces":      {options: Options{Image: "i", MaxNamespaces: -DefaultMaxNamespaces}, want: "--max-namespaces-per-tenant is 0, and must be positive"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.options.MaxNamespaces += DefaultMaxNamespaces
			err := tc.options.Validate()
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestConfined checks that it is seen whether the host keeps its client within bounds.
func TestConfined(t *testing.T) {
	denied := func(why string) error {
		return apierrors.NewForbidden(corev1.Resource("namespaces"), notOurs, &apierrors.StatusError{ErrStatus: apierrors.NewBadRequest(why).Status()})
	}
	for name, tc := range map[string]struct {
		answer error
		want   string
	}{
		"by the policy":        {answer: denied("ValidatingAdmissionPolicy 'tenantry-workloads' with binding 'tenantry-workloads' denied request: no")},
		"not at all":           {want: "is missing, or does not hold"},
		"by something else":    {answer: denied("RBAC: no"), want: "make a kubeconfig for its ServiceAccount syncer if they are another's"},
		"by a host that fails": {answer: apierrors.NewInternalError(denied("no")), want: "looking whether"},
	} {
		t.Run(name, func(t *testing.T) {
			host := fake.NewClientset()
			host.PrependReactor("create", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
				create := action.(clienttesting.CreateActionImpl)
				if dry := create.CreateOptions.DryRun; len(dry) != 1 || dry[0] != "All" {
					t.Errorf("a namespace is made: %v", create.CreateOptions)
				}
				return true, create.Object, tc.answer
			})
			err := confined(t.Context(), host)
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestAccountOf(t *testing.T) {
	for name, want := range map[string]string{
		"system:serviceaccount:tenantry-workloads:syncer":         "",
		"system:serviceaccount:team-a:one.syncer.tenantry.io":     "",
		"system:serviceaccount:team-a:one.connect.tenantry.io":    "must be of a ServiceAccount",
		"system:serviceaccount:team-a:one.two.syncer.tenantry.io": "must be of a ServiceAccount",
		"system:serviceaccount:default:syncer":                    "must be of a ServiceAccount in the namespace tenantry-workloads",
		"admin":                                                   `are those of user "admin"`,
	} {
		host := fake.NewClientset()
		host.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: name}}}, nil
		})
		owner, subjects, err := accountOf(t.Context(), host)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", name, err)
		}
		if err == nil && (len(subjects) != 1 || subjects[0].Name != owner.Syncer() || subjects[0].Namespace != owner.Namespace) {
			t.Errorf("%s: got %v", name, subjects)
		}
	}
}

// TestAllowed checks that a ControlPlane whose ServiceAccount nobody has given rights to says how to.
func TestAllowed(t *testing.T) {
	owner := names.Owner{Namespace: "team-a", ControlPlane: "one"}
	for name, tc := range map[string]struct {
		owner  names.Owner
		denied string
		want   []string
	}{
		"all":                {owner: owner},
		"nothing":            {owner: owner, denied: "namespaces", want: []string{"--clusterrole tenantry-workloads-syncer --serviceaccount team-a:one.syncer.tenantry.io"}},
		"no Lease":           {owner: owner, denied: "leases", want: []string{"kubectl -n team-a create rolebinding one.syncer.tenantry.io --clusterrole tenantry-workloads-election --serviceaccount team-a:one.syncer.tenantry.io"}},
		"one that runs else": {owner: names.Owner{Namespace: names.Platform}, denied: "namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			host := fake.NewClientset()
			host.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
				review.Status.Allowed = review.Spec.ResourceAttributes.Resource != tc.denied
				return true, review, nil
			})
			err := allowed(t.Context(), host, tc.owner, "i")
			if (err != nil) != (tc.want != nil) {
				t.Fatalf("got %v", err)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %v", err)
				}
			}
			// The host keeps the last 2,048 bytes of what a process says at its end.
			if long := strings.ReplaceAll(fmt.Sprint(err), "team-a", strings.Repeat("n", 63)); len(strings.ReplaceAll(long, "one.", strings.Repeat("c", 40)+".")) > 1900 {
				t.Errorf("the message may have %d bytes", len(long))
			}
		})
	}
}
