// Package mock starts a Tidewire mock in a test, says what it answers, and verifies what it was called with, by
// nothing but the standard library.
//
//	func TestPrice(t *testing.T) {
//		shop := mock.Start(t, mock.Options{Protos: "protos"})
//		shop.On("shop.v1.Cart/GetPrice").With("sku", "tea").Reply(mock.Doc{"unit_price": 4})
//		client := shopv1connect.NewCartClient(shop.Client(), shop.URL())
//		// ...
//		shop.Verify("shop.v1.Cart/GetPrice", mock.With("sku", "tea"), mock.Exactly(1))
//	}
//
// Tests that run beside one another share a mock that TestMain got from New, with a Session each. Messages of
// protobuf are taken in place of a Doc where tidewire.dev/mock/protobuf is imported.
package mock
