"""Views, copies of views, joining and rearranging."""
