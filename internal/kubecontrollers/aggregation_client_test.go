package kubecontrollers

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	rbacapply "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestAggregationAppliesToWhatIsListed checks that rules go to the very role that the
// controller has read, and that it is no failure if that is gone.
func TestAggregationAppliesToWhatIsListed(t *testing.T) {
	of := func(uid types.UID) *rbacv1.ClusterRole {
		r := aggregating("a|all")
		r.UID = uid
		return r
	}
	conflict := apierrors.NewConflict(rbacv1.Resource("clusterroles"), "a|all", errors.New("uid mismatch"))
	for name, tc := range map[string]struct {
		listed, stored *rbacv1.ClusterRole
		answer         error
		asked, failed  bool
	}{
		"there":                    {listed: of("1"), stored: of("1"), asked: true},
		"changed by others":        {listed: of("1"), stored: of("1"), answer: conflict, asked: true, failed: true},
		"deleted, as is listed":    {},
		"deleted":                  {listed: of("1"), answer: conflict, asked: true},
		"deleted and made again":   {listed: of("1"), stored: of("2"), answer: conflict, asked: true},
		"made again, as is listed": {listed: of("2"), stored: of("2"), asked: true},
	} {
		t.Run(name, func(t *testing.T) {
			var stored []runtime.Object
			if tc.stored != nil {
				stored = append(stored, tc.stored)
			}
			var listed []*rbacv1.ClusterRole
			if tc.listed != nil {
				listed = append(listed, tc.listed)
			}
			client := fake.NewClientset(stored...)
			asked := false
			client.PrependReactor("patch", "clusterroles", func(action clienttesting.Action) (bool, runtime.Object, error) {
				asked = true
				var applied rbacv1.ClusterRole
				if err := json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &applied); err != nil {
					t.Error(err)
				}
				if applied.UID != tc.listed.UID {
					t.Errorf("applied to UID %q", applied.UID)
				}
				return true, &applied, tc.answer
			})
			known := knownClusterRoles{client.RbacV1(), newLister(t, listed...).ClusterRoleLister}
			_, err := known.ClusterRoles().Apply(context.Background(), rbacapply.ClusterRole("a|all"), metav1.ApplyOptions{FieldManager: "test"})
			if asked != tc.asked || (err != nil) != tc.failed {
				t.Errorf("asked %v, error %v", asked, err)
			}
		})
	}
}
